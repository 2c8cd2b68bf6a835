"""A learner for any environment with one setting: replayed runs of steps, two critics, and a policy that follows them.

After each step of a trial's environments come some updates. The critics learn Retrace(λ) targets, with exact
expectations over actions. The policy takes a mirror-descent step towards

    π* ∝ π^(1 - κ) exp(A / η),

the closed form of a natural-gradient step of Mean Actor-Critic, with a pull κ to uniform. What A is tells the
algorithms apart (`ADVANTAGES`), and nothing else does. All scales are learned, so that no setting depends on units.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mean_actor_critic.learning import novelty, scales
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.kernels import OPERATIONS, log_softmax
from mean_actor_critic.learning.networks import Networks, Units, highest, legal, normalize, softmax, sum_over_actions
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.learning.steps import optimizer_step
from mean_actor_critic.learning.targets import traced
from mean_actor_critic.learning.types import Batch, Context, Learner, Metrics, SequenceMemory
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.spec.learners import BINARY, CHOICE, Shapes
from mean_actor_critic.spec.learners import ReplayedHyper as Hyper
from mean_actor_critic.spec.learners import ReplayedSetup as Setup

LARGEST_WEIGHT = 1e6  # beyond which a trial counts as diverged: layer normalisation would hide it for ever
SMALLEST_SPREAD = 1e-8  # of advantages
RAREST = 1e-6  # probability that an action taken is believed to have had at least
_OPTIMIZER = optimizer_step("adam")

Stack = Any  # weights of several networks of the same form: all the critics', then the policy's [network, …]


class State(NamedTuple):
    """Everything that a trial carries from one step of its environments to the next, but for the ring."""

    networks: Stack
    targets: Stack  # the same, lagging behind
    optimizer: Any
    observed: scales.Observed
    returns: scales.Returns
    spread: scales.Average  # of advantages
    health: scales.Health
    novelty: Any  # a `Novelty`, or () without
    update: Int[Array, ""]  # calls of `learn` so far
    diverged_at: Int[Array, ""]  # the call (from 1) that was not finite; 0: none


class Actor(NamedTuple):
    """What decides on actions: a stack of one policy, or of critics where there is no policy."""

    networks: Stack
    scale: Units | tuple[()]  # () where they see observations as they are


class Outputs(NamedTuple):
    """What acting computes."""

    logits: Float[Array, "*n action"]


# --- what tells the algorithms apart ---------------------------------------------------------------------------------


class Judged(NamedTuple):
    """Replayed states, and all that is known of what to do there."""

    policy: Float[Array, "n action"]
    q: Float[Array, "n action"]
    action: Int[Array, " n"]
    behaviour: Float[Array, " n"]  # probability with which the action was taken then


def all_actions(judged: Judged) -> Float[Array, "n action"]:
    """Mean Actor-Critic: A(s, a) = Q(s, a) - Σ_b π(b) Q(s, b), for every action."""
    return judged.q - sum_over_actions(judged.policy * judged.q)[:, None]


def action_taken(judged: Judged) -> Float[Array, "n action"]:
    """Its sampled-action twin: an estimate of the same from the one action taken, without bias.

    The advantage of the action is divided by the probability that it had, and the others' is 0, less the mean of that
    under the policy, which every estimate of an advantage has subtracted.
    """
    taken = jax.nn.one_hot(judged.action, judged.q.shape[-1])
    advantage = sum_over_actions(taken * all_actions(judged)) / jnp.maximum(judged.behaviour, RAREST)
    weights = taken * advantage[:, None]
    return weights - sum_over_actions(judged.policy * weights)[:, None]


# For q_learning there is no policy to improve: it acts by the critics.
ADVANTAGES: dict[str, Callable[[Judged], Array]] = {
    "mac": all_actions,
    "advantage_actor_critic": action_taken,
    "q_learning": all_actions,
}


# --- acting ----------------------------------------------------------------------------------------------------------


def init(setup: Setup, shapes: Shapes, key: Array) -> State:
    """A trial before its first step."""
    networks_key, novelty_key = jax.random.split(key)
    size = sum(part.size for part in setup.parts)
    network = network_of(setup)
    blank = network.shapes(*shapes)
    keys = jax.random.split(networks_key, setup.critics + 1)
    networks = jax.lax.map(lambda key: network.init(key, blank), keys)  # see `stepped.initialiser`
    tabular = all(part.kind in (CHOICE, BINARY) for part in setup.parts)
    return State(
        networks=networks,
        targets=networks,
        optimizer=_OPTIMIZER.init(networks),
        observed=scales.no_observations(size),
        returns=scales.no_returns(setup.environments),
        spread=scales.NOTHING,
        health=scales.UNKNOWN,
        novelty=novelty.init(novelty_key, size, tabular) if setup.novelty else (),
        update=jnp.int32(0),
        diverged_at=jnp.int32(0),
    )


def _scale(setup: Setup, state: State) -> Units:
    scale = scales.scale_of(state.observed, setup.parts)
    if setup.normalize_observations:
        return scale
    return Units(jnp.zeros_like(scale.mean), jnp.ones_like(scale.deviation))


def _has_policy(setup: Setup) -> bool:
    return POLICY in algorithm_of(setup.algorithm).parts


def actor(setup: Setup, state: State) -> Actor:
    """The part of a state that plays."""
    some = slice(-1, None) if _has_policy(setup) else slice(0, -1)
    scale = _scale(setup, state) if setup.scales_observations else ()
    return Actor(jax.tree.map(lambda x: x[some], state.networks), scale)


def _seen(scale: Units | tuple[()], observation: Array) -> Float[Array, "*n observation"]:
    seen = observation.astype(jnp.float32)
    return normalize(seen, scale) if scale else seen


def _outputs(setup: Setup, networks: Stack, seen: Float[Array, "n observation"]) -> Float[Array, "network n action"]:
    each = network_of(setup).each
    assert each is not None
    return jax.vmap(lambda weights: each(weights, seen, OPERATIONS))(networks)


def act(setup: Setup, actor: Actor, observation: Float[Array, "*n observation"], mask: Any = ()) -> Outputs:
    """The policy in some states; without one, all weight is on the action of the highest value."""
    seen = _seen(actor.scale, observation)
    logits = jnp.mean(_outputs(setup, actor.networks, seen.reshape(-1, seen.shape[-1])), axis=0)
    logits = legal(logits.reshape(*seen.shape[:-1], logits.shape[-1]), mask)
    return Outputs(logits if _has_policy(setup) else highest(logits))


def behaviour(
    setup: Setup, context: Context, hyper: Hyper, logits: Float[Array, "n action"], mask: Any = ()
) -> Float[Array, "n action"]:
    """The probabilities with which actions are taken in training: uniform at first, then mostly the policy's."""
    allowed = jnp.ones_like(logits) if isinstance(mask, tuple) else mask.astype(jnp.float32)
    uniform = allowed / jnp.sum(allowed, axis=-1, keepdims=True)
    share = jnp.where(context.step * setup.environments < setup.warm_up, 1.0, hyper.exploration)
    return (1 - share) * softmax(logits) + share * uniform


def keep(setup: Setup, state: State) -> Networks:
    """What an agent keeps of a state."""
    playing = actor(setup, state)
    return Networks(playing.networks, jax.tree.map(lambda x: x[:-1], state.networks), playing.scale)


def player(networks: Networks) -> Actor:
    """The actor that plays as an agent does."""
    return Actor(networks.policy, networks.normalizer)


def memory(setup: Setup) -> SequenceMemory:
    """The replay."""
    shape = (setup.updates_per_step, setup.sequences)
    return SequenceMemory(setup.replay_capacity, setup.environments, shape, setup.sequence_length + 1)


# --- learning --------------------------------------------------------------------------------------------------------


def learn(
    setup: Setup, context: Context, hyper: Hyper, state: State, batch: Batch, sampled: Rows
) -> tuple[State, Metrics]:
    """Learn from a step of all environments [1, environment], and from rows [update, sequence, row] of the replay.

    A trial that would become non-finite keeps its last finite state from then on.
    """
    learned = _observed(setup, context, hyper, state, batch)
    hyper = settled(hyper, context.step * setup.environments)
    enough = (context.step + 1) * setup.environments >= setup.warm_up
    enough &= context.step + 1 >= setup.sequence_length + 1
    updates = functools.partial(_updates, setup)
    if jax.default_backend() == "cpu":  # trials one after the other: what an update goes over stays in the cache
        updates = jax.custom_batching.sequential_vmap(updates)
    learned = jax.lax.cond(enough, updates, lambda _hyper, state, _sampled: state, hyper, learned, sampled)
    number = state.update + 1
    healthy = (_largest(learned.networks) < LARGEST_WEIGHT) & jnp.isfinite(learned.spread.mean)
    diverged_at = jnp.where((state.diverged_at == 0) & ~healthy, number, state.diverged_at)
    kept = jax.tree.map(lambda new, old: jnp.where(diverged_at == 0, new, old), learned, state)
    metrics = Metrics(jnp.sum(batch.reward), jnp.int32(setup.environments))
    return kept._replace(update=number, diverged_at=diverged_at), metrics


def settled(hyper: Hyper, steps: Any) -> Hyper:
    """The numbers of a trial after so many agent steps: it learns in smaller steps, and less of its policy is chance.

    The learning rate falls from the beginning, as 1/sqrt(t). The pull to uniform falls late: released early, a policy
    can settle on the first thing that does no harm, such as hovering over a landing site.
    """
    smaller = (1 + steps / hyper.settling_steps) ** -0.5
    released = 1 / (1 + (steps / hyper.release_steps) ** 2)
    return dataclasses.replace(
        hyper, learning_rate=hyper.learning_rate * smaller, uniform_pull=hyper.uniform_pull * released
    )


def _updates(setup: Setup, hyper: Hyper, state: State, sampled: Rows) -> State:
    """All updates of a call, on rows [update, sequence, row]."""
    lessons = prepared(setup, hyper, state, sampled)
    return jax.lax.scan(lambda state, lesson: (_update(setup, hyper, state, lesson), None), state, lessons)[0]


def _largest(networks: Stack) -> Float[Array, ""]:
    """The largest weight; not a number if one is none."""
    return functools.reduce(jnp.maximum, [jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(networks)])


def _observed(setup: Setup, context: Context, hyper: Hyper, state: State, batch: Batch) -> State:
    """The state with a step's observations and rewards counted in."""
    ended = (batch.terminated | batch.truncated)[0]
    state = state._replace(
        observed=scales.observe(state.observed, setup.parts, batch.observation[0]),
        returns=scales.earn(state.returns, batch.reward[0], ended, hyper.discount),
    )
    if setup.novelty:
        scale = _scale(setup, state)
        seen, variance = _seen(scale, batch.observation[1]), scales.variance(state.observed, scale)
        state = state._replace(novelty=novelty.visit(state.novelty, seen, variance, context.step))
    return state


class _Lagging(NamedTuple):
    """What the target networks say of rows [sequence, row, action]."""

    lowest_q: Float[Array, "sequence row action"]  # of the critics
    mean_q: Float[Array, "sequence row action"]
    log_policy: Float[Array, "sequence row action"]


class _Notes(NamedTuple):
    """What an update says besides its loss."""

    spread: scales.Average
    entropy: Float[Array, ""]
    error: Float[Array, ""]


class Lesson(NamedTuple):
    """Replayed rows [sequence, row] as the networks see them."""

    rows: Rows
    seen: Float[Array, "sequence*row observation"]  # scaled
    reward: Float[Array, "sequence row"]  # scaled, with the bonus of the state that the action led to


def prepared(setup: Setup, hyper: Hyper, state: State, rows: Rows) -> Lesson:
    """Rows [*update, sequence, row], scaled; the same for all updates of a call, and so computed at once."""
    shape = rows.action.shape
    scale = _scale(setup, state)
    scaled = _seen(scale, rows.observation)
    seen = scaled if setup.scales_observations else _seen((), rows.observation)
    reward = rows.reward / scales.reward_scale(state.returns) if setup.scale_rewards else rows.reward
    if setup.novelty:
        flat, variance = scaled.reshape(-1, scaled.shape[-1]), scales.variance(state.observed, scale)
        new = novelty.bonus(state.novelty, flat, variance).reshape(shape)
        reward = reward + hyper.novelty_weight * (1 - hyper.discount) * jnp.roll(new, -1, axis=-1)
    return Lesson(rows, seen.reshape(*shape[:-2], shape[-2] * shape[-1], -1), reward)


def _update(setup: Setup, hyper: Hyper, state: State, lesson: Lesson) -> State:
    """One step of all networks on runs of steps [sequence, row]."""
    rows, seen, reward = lesson
    outputs = _outputs(setup, state.targets, seen)
    shape = (*rows.action.shape, outputs.shape[-1])
    outputs = outputs.reshape(-1, *shape)
    q, logits = outputs[:-1], legal(outputs[-1], rows.mask)
    lagging = _Lagging(jnp.min(q, axis=0), jnp.mean(q, axis=0), log_softmax(logits))

    def loss(networks: Stack) -> tuple[Array, _Notes]:
        online = _outputs(setup, networks, seen).reshape(-1, *shape)
        return _loss(setup, hyper, state.spread, rows, reward, lagging, online)

    gradient, notes = jax.grad(loss, has_aux=True)(state.networks)
    health = scales.Health(*map(scales.averaged, state.health, (notes.entropy, notes.error)))
    networks, optimizer = _OPTIMIZER.step(state.networks, gradient, state.optimizer, hyper.learning_rate)
    targets = jax.tree.map(lambda lag, now: lag + hyper.target_rate * (now - lag), state.targets, networks)
    learned = {"networks": networks, "targets": targets, "optimizer": optimizer}
    return state._replace(**learned, spread=notes.spread, health=health)


def _loss(
    setup: Setup,
    hyper: Hyper,
    spread: scales.Average,
    rows: Rows,
    reward: Float[Array, "sequence row"],
    lagging: _Lagging,
    outputs: Float[Array, "network sequence row action"],
) -> tuple[Float[Array, ""], _Notes]:
    """The sum of the critics' losses and the policy's, and what to note."""
    q, logits = outputs[:-1], legal(outputs[-1], rows.mask)
    log_policy = log_softmax(logits)
    if _has_policy(setup):
        policy = jax.lax.stop_gradient(jnp.exp(log_policy))
    else:
        policy = jax.nn.one_hot(jnp.argmax(legal(jnp.mean(q, axis=0), rows.mask), axis=-1), q.shape[-1])
    # the last row of a run is only looked at from the one before, and an episode's last has no action
    valid = (~rows.last).at[:, -1].set(False)
    weight = valid / jnp.maximum(jnp.sum(valid), 1)
    taken = jax.nn.one_hot(rows.action, q.shape[-1])
    target = critic_target(setup, hyper, rows, reward, policy, lagging.lowest_q)
    error = sum_over_actions(q * taken) - jax.lax.stop_gradient(target)
    total = 0.5 * jnp.sum(weight * error**2)
    mean_error = 2 * total / setup.critics
    if not _has_policy(setup):
        return total, _Notes(spread, jnp.float32(0), mean_error)
    # by the lagging critics, whose errors of one update average out: the policy follows them sooner and more steadily
    judged = Judged(policy, lagging.mean_q, rows.action, rows.behaviour)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), judged)
    advantage = ADVANTAGES[setup.algorithm](flat).reshape(policy.shape)
    spread = scales.averaged(spread, jnp.sum(weight * _mean_over_actions(advantage**2, rows.mask)))
    relative = advantage / jnp.maximum(jnp.sqrt(spread.mean), SMALLEST_SPREAD)
    entropy = -sum_over_actions(jnp.exp(log_policy) * log_policy)
    if setup.policy_step == "mirror_descent":
        aim = softmax(legal(improved(hyper, lagging.log_policy, relative), rows.mask))
        of_policy = -sum_over_actions(jax.lax.stop_gradient(aim) * log_policy)
    else:
        of_policy = -sum_over_actions(policy * relative * log_policy) - hyper.entropy_weight * entropy
    share = jnp.sum(weight * entropy) / scales.most_entropy(weight, q.shape[-1], rows.mask)
    return total + jnp.sum(weight * of_policy), _Notes(spread, share, mean_error)


def _mean_over_actions(x: Float[Array, "*n action"], mask: Any) -> Float[Array, "*n"]:
    """The mean over all actions, or over the legal ones."""
    if isinstance(mask, tuple):
        return jnp.mean(x, axis=-1)
    return jnp.sum(x, axis=-1, where=mask) / jnp.maximum(jnp.sum(mask, axis=-1), 1)


def improved(
    hyper: Hyper, log_policy: Float[Array, "*n action"], advantage: Float[Array, "*n action"]
) -> Float[Array, "*n action"]:
    """Logits of π* ∝ π^(1 - κ) exp(A / η), with A in standard deviations and bounded."""
    bounded = jnp.clip(advantage, -hyper.advantage_clip, hyper.advantage_clip)
    return (1 - hyper.uniform_pull) * log_policy + bounded / hyper.temperature


def critic_target(
    setup: Setup,
    hyper: Hyper,
    rows: Rows,
    reward: Float[Array, "sequence row"],
    policy: Float[Array, "sequence row action"],
    q: Float[Array, "sequence row action"],
) -> Float[Array, "sequence row"]:
    """What the critics are to say of the action in each row but the last.

    Args:
        setup: which target.
        hyper: discount, and decay of traces.
        rows: of the replay.
        reward: of each step, in the critics' units.
        policy: that is valued.
        q: what is believed so far.
    """
    taken = jax.nn.one_hot(rows.action, q.shape[-1])
    chosen = sum_over_actions(policy * taken)
    trace = {
        "retrace": jnp.minimum(1.0, chosen / jnp.maximum(rows.behaviour, RAREST)),
        "tree_backup": chosen,
        "n_step": jnp.ones_like(chosen),
        "one_step": jnp.zeros_like(chosen),
    }[setup.critic_target]
    # nothing was done in an episode's last row, and of the run's last it is not known what came of it
    trace = jnp.where(rows.last, 0.0, hyper.trace_decay * trace).at[:, -1].set(0.0)
    target = traced(
        reward[:, :-1],
        jnp.where(rows.terminated[:, :-1], 0.0, hyper.discount),
        sum_over_actions(policy * q)[:, 1:],
        sum_over_actions(q * taken)[:, 1:],
        trace[:, 1:],
    )
    return jnp.pad(target, ((0, 0), (0, 1)))


LEARNER = Learner(init, actor, act, learn, keep, player, memory, behaviour=behaviour)

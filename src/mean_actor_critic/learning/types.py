"""The types that carry a trial. Every array here belongs to ONE trial; vmap adds the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.learning.replay import Transitions


class Batch(NamedTuple):
    """What a learner learns from: one episode [time], or a rollout of several environments [time, environment].

    An episode is padded to the time limit: steps after its end have `valid` false and repeat the last state.
    Fields that an engine or a learner does without are ().
    """

    action: Int[Array, " time *environment"]
    reward: Float[Array, " time *environment"]  # the environment's own
    terminated: Bool[Array, " time *environment"]  # the episode ended with this step, in a terminal state
    valid: Bool[Array, " time *environment"]  # the action was the agent's
    observation: Any = ()  # [time + 1, …], where the acting pass was not kept
    truncated: Any = ()  # [time, *environment] the episode was cut off after this step
    value_beyond: Any = ()  # [time, *environment] of the state that an episode was cut off in, where that counts
    acted: Any = ()  # the acting pass of each step, where it was kept, and what it leads to
    behaviour: Any = ()  # [time, *environment] probability with which the action was chosen
    mask: Any = ()  # [time + 1, *environment, action] which actions are legal, where the environment tells


class Acted(NamedTuple):
    """The acting pass of a rollout, for learners whose forward pass it is."""

    steps: tuple[Any, ...]  # the outputs of each step
    after: Any  # the observation after the rollout, from which it bootstraps; with `pipelined`, the outputs from there
    actor: Any  # that acted, where it was not the state's own: the gradient is then its; else None


class Evidence(NamedTuple):
    """All that an estimator may look at: the policy and critic in every state visited, and what came of it."""

    policy: Float[Array, "time action"]
    q: Float[Array, "time action"]  # zeros for algorithms without a critic
    returns: Float[Array, " time"]
    baseline: Float[Array, "*time"]  # one for all states, or one for each
    action: Int[Array, " time"]
    mask: Any = ()  # [time, action] the legal actions, where not all are; the policy of the others is 0


class Metrics(NamedTuple):
    """What is kept of an episode for the learning curves."""

    episode_return: Float[Array, ""]  # undiscounted
    length: Int[Array, ""]  # agent steps


class Context(NamedTuple):
    """What a learner may know of the training beyond its own trial's batch."""

    longest: Int[Array, ""]  # steps of the longest episode among those that are learned from together
    updates: Int[Array, ""]  # of the whole training, for schedules
    step: Any = 0  # of all environments, from 0, where the clock counts steps: the same for all trials


class PolicyStep(NamedTuple):
    """Any estimator's gradient to new weights: an optimiser's step is one (`learning.steps`)."""

    init: Callable[[Any], Any]  # (weights) -> the step's own state
    step: Callable[..., tuple[Any, Any]]  # (weights, gradient, state, learning rate) -> (weights, state)


class Memory(NamedTuple):
    """What a learner remembers: the ring belongs to the engine, which writes and samples it in place."""

    capacity: int  # rows of the ring
    sampled: tuple[int, int]  # minibatches of an update, rows in each
    rows: Callable[[Any, Batch], Transitions]  # (hyper, batch) -> what a batch adds


class SequenceMemory(NamedTuple):
    """What a learner remembers that learns from runs of successive steps."""

    capacity: int  # rows of the ring, over all environments
    environments: int
    sampled: tuple[int, ...]  # how many runs are sampled for a call of `learn`, with these dimensions
    length: int  # rows of each


class Learner(NamedTuple):
    """A way of learning, as pure functions of one trial.

    State is a NamedTuple of arrays: what a trial carries from one call of `learn` to the next. It has at least
    `diverged_at` (the call, from 1, that was not finite; 0: none) and, where the clock counts episodes, `episode`
    (calls so far). An actor is the part of it that plays.
    """

    init: Callable[..., Any]  # (setup, shapes, key) -> state
    actor: Callable[..., Any]  # (setup, state) -> actor
    act: Callable[..., Any]  # (setup, actor, observation [*n, …], mask) -> outputs with `logits` [*n, action]
    learn: Callable[..., Any]  # (setup, context, hyper, state, batch, sampled transitions or None) -> (state, metrics)
    keep: Callable[[Any, Any], Networks]  # (setup, state) -> what an agent keeps of it
    player: Callable[[Networks], Any]  # (what an agent keeps) -> actor
    memory: Callable[[Any], Memory | SequenceMemory | None] = lambda _setup: None  # (setup) -> Memory, if it has one
    work: Callable[[Any], int] = lambda _setup: 1  # (setup) -> bytes that an update goes over again and again
    value: Callable[..., Any] | None = None  # (setup, outputs [n]) -> values of states [n], where `learn` wants them
    # (setup, context, hyper, logits [n, action], mask) -> probabilities of actions in training, if not the policy's
    behaviour: Callable[..., Any] | None = None

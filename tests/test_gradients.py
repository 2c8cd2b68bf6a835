"""Bias and variance of the estimators: exactly in small problems, and sampled for frozen networks."""

import functools
import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from helpers import TINY, assert_refused, copy_of_tiny_run, mac, only_begun
from hosted_environments import Tiny
from mean_actor_critic import train
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.gradients import deep, parts
from mean_actor_critic.gradients.exact import (
    COMPARED,
    Problem,
    Size,
    SoftmaxPolicy,
    action_values,
    counterexample,
    examine,
    measure,
    objective,
    policy_gradient,
    random_problems,
)
from mean_actor_critic.gradients.moments import measure_trial, parse_batches
from mean_actor_critic.gradients.theory import EPISODE, PARTS, UPDATE, read_theory
from mean_actor_critic.learning.estimators import policy_loss
from mean_actor_critic.learning.networks import Layer
from mean_actor_critic.learning.types import Evidence
from mean_actor_critic.runs.agent import Agent, Networks
from mean_actor_critic.runs.collect import Pool
from mean_actor_critic.spec.experiment import make_experiment
from synthetic import make_run

HORIZON = 3
SEEDS = st.integers(0, 2**31 - 1)
SIZES = (Size(3, 2), Size(2, 3, 2))  # few, because each is compiled


def one_problem(seed, size, sharper=1.0):
    random = np.random.default_rng(seed)
    problem, policy = jax.tree.map(lambda x: x[0], random_problems(random, 1, size, HORIZON))
    q = action_values(problem, policy) + 3 * random.normal(size=(HORIZON, size.states, size.actions))
    return random, problem, policy._replace(parameters=sharper * policy.parameters), q


# --- exact -----------------------------------------------------------------------------------------------------------


def all_trajectories(problem, policy):
    """Every (chance, [(state, action), …], [reward, …]) that can happen, by listing them."""
    chance_of = np.exp(np.asarray(jax.nn.log_softmax(policy.features @ policy.parameters)))

    def go_on(chance, steps, rewards, state):
        for action in range(chance_of.shape[1]):
            here = chance * chance_of[state, action]
            now = ([*steps, (state, action)], [*rewards, problem.reward[state, action]])
            last = len(now[0]) == problem.horizon
            ending = 1.0 if last else 1 - problem.transition[state, action].sum()
            if here * ending > 0:
                yield here * ending, *now
            for after in range(len(problem.initial)) if not last else ():
                if problem.transition[state, action, after] > 0:
                    yield from go_on(here * problem.transition[state, action, after], *now, after)

    for state, chance in enumerate(problem.initial):
        if chance > 0:
            yield from go_on(chance, [], [], state)


def listed_moments(problem, policy, q, baseline, name, discounted):
    """Mean and covariance of an estimator's sum over an episode, from the list of all episodes."""

    @jax.jit
    def estimate(state, action, returns, values, weight):
        def loss(parameters):
            log_policy = jax.nn.log_softmax((policy.features @ parameters)[state])
            evidence = Evidence(jnp.exp(log_policy), values, returns, baseline, action)
            return policy_loss(log_policy, COMPARED[name](evidence), weight)

        return -jax.grad(loss)(policy.parameters)

    chances, estimates = [], []
    for chance, steps, rewards in all_trajectories(problem, policy):
        length = len(steps)
        returns = np.zeros(problem.horizon)
        for t in reversed(range(length)):
            returns[t] = rewards[t] + (problem.discount * returns[t + 1] if t + 1 < length else 0.0)
        state, action = (np.zeros(problem.horizon, int) for _ in range(2))
        state[:length], action[:length] = zip(*steps, strict=True)
        weight = np.where(np.arange(problem.horizon) < length, problem.discount ** np.arange(problem.horizon), 0.0)
        weight = weight if discounted else (weight > 0).astype(float)
        chances.append(chance)
        estimates.append(np.asarray(estimate(state, action, returns, q[np.arange(problem.horizon), state], weight)))
    chances, estimates = np.array(chances), np.array(estimates)
    assert np.isclose(chances.sum(), 1)
    mean = chances @ estimates
    return mean, np.einsum("n,nk,nl->kl", chances, estimates - mean, estimates - mean)


@pytest.mark.parametrize("discounted", [True, False])
@pytest.mark.parametrize("name", COMPARED)
def test_the_moments_are_those_of_listing_every_trajectory(name, discounted):
    _, problem, policy, q = one_problem(1, SIZES[0])
    baseline = objective(problem, policy)
    found = measure(problem, policy, q, baseline, discounted=discounted)[name]
    with jax.enable_x64(True):
        mean, covariance = listed_moments(problem, policy, q, baseline, name, discounted)
    np.testing.assert_allclose(found.episode_mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.episode, covariance, rtol=0, atol=1e-12)


def test_everything_is_float64_and_leaves_jax_as_it_was():
    _, problem, policy, q = one_problem(0, SIZES[0])
    found = measure(problem, policy, q, 0.0)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(found))
    assert jnp.zeros(1).dtype == jnp.float32


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(SIZES), st.floats(0, 4))
def test_theorem_1_and_2_for_independent_states(seed, size, sharper):
    _, problem, policy, q = one_problem(seed, size, sharper)
    found = measure(problem, policy, q, objective(problem, policy))
    actor_critic, ours = found["actor_critic"], found["mac"]
    scale = max(1.0, np.abs(q).max())
    np.testing.assert_allclose(actor_critic.mean, ours.mean, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(actor_critic.episode_mean, ours.episode_mean, rtol=0, atol=1e-12 * scale)
    for name in ("actor_critic", "advantage_actor_critic"):
        smallest = np.linalg.eigvalsh(found[name].independent - ours.independent)[0]
        assert smallest >= -1e-12 * scale**2
    # the same mean whatever an estimate is made from, and the parts of a variance are the whole of it
    for measured in found.values():
        np.testing.assert_allclose(measured.mean, measured.episode_mean, rtol=0, atol=1e-11 * scale)
        parts = measured.actions + measured.returns + measured.states
        np.testing.assert_allclose(parts, measured.independent, rtol=0, atol=1e-10 * scale**2)


@pytest.mark.slow
@pytest.mark.parametrize("discounted", [True, False])
def test_with_true_values_every_estimator_is_unbiased_and_with_others_two_are(discounted):
    random = np.random.default_rng(3)
    problem, policy = random_problems(random, 20, SIZES[0], HORIZON)
    nothing = np.zeros((20, HORIZON, 3, 2))
    exact = examine(problem, policy, nothing, nothing[..., 0], discounted=discounted)
    for measured in exact.estimators.values():
        np.testing.assert_allclose(measured.mean, exact.gradient, rtol=0, atol=1e-12)
    wrong = examine(problem, policy, random.normal(size=nothing.shape), nothing[..., 0], discounted=discounted)
    biases = {name: np.abs(measured.mean - wrong.gradient).max() for name, measured in wrong.estimators.items()}
    assert max(biases["reinforce"], biases["advantage_reinforce"]) < 1e-12
    assert min(biases[name] for name in ("actor_critic", "advantage_actor_critic", "mac")) > 1e-3


def test_the_gradient_is_what_differences_of_the_objective_say():
    _, problem, policy, _ = one_problem(5, SIZES[0])
    gradient = policy_gradient(problem, policy)
    for place, step in itertools.product(range(3), [1e-5]):
        ahead, behind = (
            objective(problem, policy._replace(parameters=policy.parameters + sign * step * np.eye(6)[place]))
            for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((ahead - behind) / (2 * step), abs=1e-8)


def test_the_counterexample_has_no_variance_for_actor_critic_and_a_quarter_for_mac():
    problem, policy = counterexample()
    q, baseline = action_values(problem, policy), objective(problem, policy)
    found = measure(problem, policy, q, baseline)
    assert found["actor_critic"].episode[0, 0] == 0.0
    assert found["mac"].episode[0, 0] == 0.25
    with jax.enable_x64(True):
        listed = {name: listed_moments(problem, policy, q, baseline, name, True)[1] for name in ("actor_critic", "mac")}
    assert (listed["actor_critic"][0, 0], listed["mac"][0, 0]) == (0.0, 0.25)
    # for independent states the theorem holds here too
    assert found["actor_critic"].independent[0, 0] > found["mac"].independent[0, 0]


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.sampled_from(SIZES))
def test_deterministic_policies_make_mac_and_actor_critic_equal(seed, size):
    _, problem, policy, q = one_problem(seed, size, sharper=1e8)
    found = measure(problem, policy, q, 0.0)
    np.testing.assert_allclose(found["mac"].independent, found["actor_critic"].independent, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["mac"].episode, found["actor_critic"].episode, rtol=0, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.sampled_from(SIZES))
def test_a_baseline_changes_nothing_about_mac_but_much_about_actor_critic(seed, size):
    random, problem, policy, q = one_problem(seed, size)
    found = measure(problem, policy, q, 0.0)
    shifted = measure(problem, policy, q + random.normal(size=(HORIZON, size.states, 1)), 0.0)
    for name in ("mean", "independent", "episode"):
        np.testing.assert_allclose(getattr(shifted["mac"], name), getattr(found["mac"], name), rtol=0, atol=1e-12)
    assert np.abs(shifted["actor_critic"].independent - found["actor_critic"].independent).max() > 1e-6


def test_two_equally_likely_actions_leave_advantage_actor_critic_no_variance_over_actions():
    _, problem, policy, q = one_problem(2, SIZES[0], sharper=0.0)
    found = measure(problem, policy, q, 0.0)
    assert np.abs(found["advantage_actor_critic"].actions).max() < 1e-28
    assert np.trace(found["actor_critic"].actions) > 0.1
    np.testing.assert_allclose(found["advantage_actor_critic"].independent, found["mac"].independent, atol=1e-12)


# --- sampled ---------------------------------------------------------------------------------------------------------

STATES, ACTIONS, EPISODES = 3, 2, 400


@functools.cache
def small_world():
    """A problem whose policy and critic are linear networks on one-hot states, with a bias for each action."""
    random = np.random.default_rng(11)
    problem, policy = jax.tree.map(lambda x: x[1], random_problems(random, 2, Size(STATES, ACTIONS), HORIZON))
    weight, bias = random.normal(size=(STATES, ACTIONS)), random.normal(size=ACTIONS)
    own = np.eye(STATES * ACTIONS).reshape(STATES, ACTIONS, -1)
    shared = np.broadcast_to(np.eye(ACTIONS), (STATES, ACTIONS, ACTIONS))
    policy = SoftmaxPolicy(np.concatenate([own, shared], axis=-1), np.concatenate([weight.ravel(), bias]))
    table = 2 * random.normal(size=(STATES, ACTIONS))
    networks = Networks((Layer(weight, bias),), (Layer(table, np.zeros(ACTIONS)),))
    experiment = make_experiment("CartPole-v0", "mac", 1, 1, 0, {"hidden": ()})
    spaces = Spaces(gymnasium.spaces.Box(0, 1, (STATES,)), gymnasium.spaces.Discrete(ACTIONS))
    return problem, policy, table, Agent(experiment, spaces, 0, networks)


def sampled_pool(problem: Problem, policy: SoftmaxPolicy, episodes: int, random: np.random.Generator) -> Pool:
    """Episodes of a finite problem."""
    chance = np.exp(np.asarray(jax.nn.log_softmax(policy.features @ policy.parameters)))

    def draw(chances):
        return (random.random(len(chances))[:, None] >= np.cumsum(chances, axis=1)).sum(axis=1)

    state = draw(np.broadcast_to(problem.initial, (episodes, len(problem.initial))))
    steps, alive = [], np.ones(episodes, bool)
    for _ in range(problem.horizon):
        action = draw(chance[state])
        steps.append((state, action, problem.reward[state, action] * alive, alive))
        after = draw(problem.transition[state, action])  # beyond the last state: the end
        alive = alive & (after < len(problem.initial))
        state = np.minimum(after, len(problem.initial) - 1)
    states, actions, rewards, valid = (np.stack(part, axis=1) for part in zip(*steps, strict=True))
    returns = np.zeros_like(rewards)
    for t in reversed(range(problem.horizon)):
        returns[:, t] = rewards[:, t] + (problem.discount * returns[:, t + 1] if t + 1 < problem.horizon else 0)
    number = np.broadcast_to(np.arange(episodes)[:, None], valid.shape)
    observation = np.eye(len(problem.initial))[states[valid]]
    return Pool(observation, actions[valid], returns[valid], number[valid], valid.sum(axis=1), rewards.sum(axis=1))


def test_what_episodes_add_up_to_is_the_gradient_that_training_takes():
    problem, policy, _, agent = small_world()
    pool = sampled_pool(problem, policy, 30, np.random.default_rng(0))
    sums = parts.episode_sums(agent, pool)
    frozen, steps = parts.freeze(agent, pool)
    with jax.enable_x64(True):
        for episode in range(3):
            own = jax.tree.map(lambda x, e=episode: x[None, pool.episode == e], steps)
            mean = np.asarray(parts._gradients("relu", frozen, own))[:, 0]
            np.testing.assert_allclose(sums.parts[:, episode] / pool.lengths[episode], mean, atol=1e-12)


def test_the_variance_split_adds_up_to_the_total():
    problem, policy, _, agent = small_world()
    pool = sampled_pool(problem, policy, EPISODES, np.random.default_rng(0))
    moment = deep.measure(agent, 0, pool, ("1", "16", EPISODE, UPDATE), 200)
    for row in moment.rows:
        assert sum(row[part].value for part in PARTS) == pytest.approx(row["variance"].value, rel=1e-9)
    one, sixteen = moment.row("actor_critic", "1"), moment.row("actor_critic", "16")
    assert one["variance"].value == pytest.approx(16 * sixteen["variance"].value)
    assert moment.row("mac", "1")["actions"].value == 0.0


@pytest.mark.slow
def test_intervals_hold_the_exact_numbers_as_often_as_they_promise(monkeypatch):
    monkeypatch.setattr(deep, "RESAMPLES", 300)
    problem, policy, table, agent = small_world()
    q = np.broadcast_to(table, (HORIZON, STATES, ACTIONS))
    exact = measure(problem, policy, q, 0.0, discounted=False)
    gradient = policy_gradient(problem, policy, discounted=False)
    steps = float(exact["mac"].steps)
    truth = {}
    for name in ("reinforce", "actor_critic", "advantage_actor_critic", "mac"):
        found = exact[name]
        truth[name, "1", "variance"] = np.trace(found.independent) / steps**2
        truth[name, "1", "measured"] = np.trace(found.independent) / steps**2
        truth[name, EPISODE, "variance"] = np.trace(found.episode) / steps**2
        truth[name, EPISODE, "trajectories"] = np.trace(found.trajectories) / steps**2
        truth[name, EPISODE, "ratio"] = np.trace(found.episode) / np.trace(exact["mac"].episode)
        truth[name, "1", "snr"] = np.sum(found.mean**2) / np.trace(found.independent)
    for name in ("actor_critic", "advantage_actor_critic"):
        truth[name, "1", "actions"] = np.trace(exact[name].actions) / steps**2
        truth[name, "1", "states"] = np.trace(exact[name].states) / steps**2
    unit = np.sqrt(max(np.sum(gradient**2), np.sum(exact["mac"].mean ** 2)))
    truth["mac", "1", "bias"] = np.sqrt(np.sum((exact["mac"].mean - gradient) ** 2)) / unit
    for name in ("actor_critic", "mac"):
        lengths = np.sqrt(np.sum(gradient**2) * np.sum(exact[name].mean ** 2))
        truth[name, "1", "direction"] = np.sum(gradient * exact[name].mean) / lengths
    studies = 100
    held = dict.fromkeys(truth, 0)
    for seed in range(studies):
        pool = sampled_pool(problem, policy, EPISODES, np.random.default_rng([1, seed]))
        moment = deep.measure(agent, 0, pool, ("1", EPISODE), 200, seed)
        for key, value in truth.items():
            number = moment.row(*key[:2])[key[2]]
            held[key] += number.low - 1e-12 <= value <= number.high + 1e-12
    # so few would one interval of 95 % hold once in ten thousand such tests; there are 32 of them
    least = binom.ppf(1e-4 / len(truth), studies, 0.95)
    assert {key: count for key, count in held.items() if count < least} == {}


def test_the_bias_of_returns_is_within_noise():
    problem, policy, _, agent = small_world()
    pool = sampled_pool(problem, policy, EPISODES, np.random.default_rng(4))
    moment = deep.measure(agent, 0, pool, ("1",), 200)
    assert moment.row("reinforce", "1")["bias"].low == 0.0
    assert moment.row("actor_critic", "1")["difference"].low == 0.0
    assert moment.row("mac", "1")["bias"].low > 0.0


def test_where_the_reference_is_nothing_but_noise_no_direction_is_given():
    problem, policy, _, agent = small_world()
    pool = sampled_pool(problem, policy, EPISODES, np.random.default_rng(5))
    rewarded = deep.measure(agent, 0, pool, ("1",), 200).row("mac", "1")
    assert -1 <= rewarded["direction"].low <= rewarded["direction"].value <= rewarded["direction"].high <= 1
    critic = tuple(Layer(np.zeros_like(w), np.zeros_like(b)) for w, b in agent.networks.critic)
    knowing = Agent(agent.experiment, agent.spaces, 0, agent.networks._replace(critic=critic))
    random_returns = np.random.default_rng(6).normal(size=len(pool.returns))  # whatever is done
    idle = deep.measure(knowing, 0, pool._replace(returns=random_returns), ("1",), 200).row("reinforce", "1")
    assert np.isnan(idle["direction"].value)
    assert np.isnan(idle["cosine"].value)
    assert not np.isnan(idle["variance"].value)


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: make_run(path / "run", "reinforce"), ("reinforce", "critic")),
        (lambda path: only_begun(copy_of_tiny_run(path)), ("checkpoint", "only begun")),
        (lambda path: make_run(path / "run", "mac", diverged=(0,)), ("trial", "diverge")),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path, make, words):
    make(tmp_path)
    assert_refused(mac("gradients", tmp_path / "run", "--quiet"), 2, *words)


@pytest.mark.parametrize("batches", ["0", "1,many", "", "1,-3"])
def test_bad_batches_are_refused(tmp_path, batches):
    files = copy_of_tiny_run(tmp_path)
    assert_refused(mac("gradients", files.run, "--quiet", "--batch-sizes", batches), 2, "batch sizes")


@pytest.mark.slow
def test_hosted_networks_are_measured_too_even_without_any_variance(tmp_path):
    settings = {**TINY, "max_episode_steps": 10}
    run = train(Tiny, trials=1, episodes=2, out=tmp_path / "run", snapshots=2, workers=1, **settings)
    trial = measure_trial(run, replicates=100, samples=1500, environment=Tiny, workers=1)
    assert [moment.episode for moment in trial.moments] == [0, 2]
    for moment in trial.moments:
        assert (moment.length.value, moment.score.value) == (10, 10)
        assert (moment.steps >= 1500, moment.episodes >= 150) == (True, True)
        # it always sees the same: only actions make a difference, and before the first episode not even these
        assert moment.row("mac", "1")["variance"].value == pytest.approx(0, abs=1e-12)
    assert trial.moments[0].row("actor_critic", "1")["variance"].value == 0
    assert trial.moments[1].row("actor_critic", "1")["variance"].value > 0


def test_batches_in_words():
    assert parse_batches("1, 016,episode,1") == ("1", "16", EPISODE)


def test_a_run_without_snapshots_is_measured_as_it_is_and_so_is_an_agent(tmp_path, monkeypatch):
    monkeypatch.setitem(measure_trial.__kwdefaults__, "samples", 0)
    monkeypatch.setattr(deep, "RESAMPLES", 100)
    files = copy_of_tiny_run(tmp_path)
    words = ("--replicates", "100", "--batch-sizes", "2,episode,update")
    outcome = mac("gradients", files.run, "--trial", "1", *words)
    assert outcome.code == 0
    assert "without --snapshots" in outcome.err
    assert "Adv. Actor-Critic" in outcome.out
    (of_run,) = read_theory(files.run).trials
    assert ([moment.episode for moment in of_run.moments], of_run.trial) == ([3], 1)
    assert of_run.batches == ["2", EPISODE, UPDATE]
    assert mac("gradients", files.agent, *words, "--out", tmp_path / "out", "--quiet").code == 0
    (of_agent,) = read_theory(tmp_path / "out").trials
    assert of_agent == of_run

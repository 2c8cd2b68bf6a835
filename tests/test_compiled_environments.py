"""Classic control and toy text as JAX programs are Gymnasium's, step by step or probability by probability."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import mean_actor_critic as mac
from helpers import message_of
from mean_actor_critic.environments.catalogue import COMPILED, check, find_environment
from mean_actor_critic.environments.compiled import cliff_walking, taxi
from mean_actor_critic.environments.compiled.acrobot import FASTEST, Acrobot
from mean_actor_critic.environments.compiled.cliff_walking import CliffWalking
from mean_actor_critic.environments.compiled.frozen_lake import FrozenLake
from mean_actor_critic.environments.compiled.grid import slip
from mean_actor_critic.environments.compiled.mountain_car import GOAL, MountainCar
from mean_actor_critic.environments.compiled.shown import shown
from mean_actor_critic.environments.compiled.taxi import Taxi
from mean_actor_critic.environments.programs import MINATAR, PROGRAMS
from mean_actor_critic.environments.spaces import flatten

STATES = 10_000
KEYS = jax.random.split(jax.random.key(0), 12_000)
KNOWN = [name for name in PROGRAMS if name in gymnasium.registry and not name.startswith(MINATAR)]
SMALL = {"episodes": 2, "hidden": (4,), "max_episode_steps": 20}


def steps_of_gymnasium(name, states, actions):
    """One step from each state: next states, observations, rewards, ends."""
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    after, seen, rewards, ends = [], [], [], []
    for state, action in zip(states.astype(np.float64), actions.tolist(), strict=True):
        env.state = state
        observation, reward, end, _, _ = env.step(action)
        after.append(env.state)
        seen.append(observation)
        rewards.append(reward)
        ends.append(end)
    return np.array(after), np.array(seen), np.array(rewards), np.array(ends)


def steps_of_ours(ours, states, actions):
    """The same of a JAX program."""

    @jax.jit
    @jax.vmap
    def step(state, action):
        after = ours.transition(state, action, None)
        return after, ours.observation(after, None), ours.reward(state, action, after, None), ours.terminal(after, None)

    return [np.asarray(part) for part in step(jnp.asarray(states), jnp.asarray(actions))]


# --- classic control -------------------------------------------------------------------------------------------------


def test_acrobot_goes_on_as_gymnasium_s_from_random_states():
    """In float64, as Gymnasium computes: the same but for the last digits.

    In float32 the fastest of states, where the integration itself goes astray, lose up to four of seven digits in the
    one step; those with speeds that are met in play lose one.
    """
    random = np.random.default_rng(0)
    spread = np.array([np.pi, np.pi, *FASTEST])
    states = random.uniform(-spread, spread, (STATES, 4)).astype(np.float32)
    slow = np.arange(STATES) < STATES // 2
    states[slow, 2:] /= 4  # up to π and 9π/4 rad/s
    actions = random.integers(3, size=STATES)
    expected, seen, rewards, ends = steps_of_gymnasium("Acrobot-v1", states, actions)

    def differences(after):
        apart = np.abs(after - expected)
        apart[:, :2] = np.minimum(apart[:, :2], 2 * np.pi - apart[:, :2])  # on a circle
        return (apart / spread).max(axis=1)

    with jax.enable_x64(True):
        exact, _, rewarded, ended = steps_of_ours(Acrobot(), states.astype(np.float64), actions)
    assert exact.dtype == np.float64
    assert differences(exact).max() < 1e-11
    assert np.array_equal(ended, ends)
    assert np.array_equal(rewarded, rewards)
    assert 0.05 < np.mean(ends) < 0.95

    after, observed, _, ended = steps_of_ours(Acrobot(), states, actions)
    assert after.dtype == observed.dtype == np.float32
    assert differences(after)[slow].max() < 2e-6
    assert differences(after).max() < 1e-3
    assert np.abs(observed - seen)[slow].max() < 2e-5
    assert np.mean(ended == ends) > 0.9995
    assert np.abs(after[:, :2]).max() <= np.float32(np.pi)


def test_mountain_car_goes_on_as_gymnasium_s_from_random_states():
    random = np.random.default_rng(0)
    states = random.uniform([-1.2, -0.07], [0.6, 0.07], (STATES, 2)).astype(np.float32)
    states[:100, 0] = -1.19  # where some meet the wall
    actions = random.integers(3, size=STATES)
    expected, seen, rewards, ends = steps_of_gymnasium("MountainCar-v0", states, actions)
    after, observed, rewarded, ended = steps_of_ours(MountainCar(), states, actions)

    clear = np.abs(expected[:, 0] - GOAL) > 1e-6
    assert np.mean(clear) > 0.999
    np.testing.assert_allclose(after, expected, atol=3e-7, rtol=0)  # five roundings of numbers near 1
    np.testing.assert_allclose(observed, seen, atol=3e-7, rtol=0)
    assert np.array_equal(ended[clear], ends[clear])
    assert np.array_equal(rewarded, rewards)
    assert 0.01 < np.mean(ends) < 0.95
    assert np.sum((after[:, 0] == np.float32(-1.2)) & (after[:, 1] == 0)) > 10


@pytest.mark.parametrize(("ours", "low", "high"), [
    (Acrobot(), [-0.1] * 4, [0.1] * 4),
    (MountainCar(), [-0.6, 0], [-0.4, 0]),
])  # fmt: skip
def test_starts_are_those_of_gymnasium(ours, low, high):
    starts = np.asarray(jax.jit(jax.vmap(ours.initial))(KEYS))
    low, high = np.float32(low), np.float32(high)
    assert np.all((low <= starts) & (starts <= high))
    np.testing.assert_allclose(np.mean(starts, axis=0), (low + high) / 2, atol=0.003)
    np.testing.assert_allclose(np.var(starts, axis=0), (high - low) ** 2 / 12, rtol=0.05, atol=1e-9)


# --- toy text --------------------------------------------------------------------------------------------------------


def outcomes_of_gymnasium(name, kwargs):
    """(state, action) -> {(next state, reward, end): probability}."""
    table = gymnasium.make(name, **kwargs).unwrapped.P
    found = {}
    for state, actions in table.items():
        for action, outcomes in actions.items():
            chances = found.setdefault((state, action), {})
            for probability, after, reward, end in outcomes:
                key = (int(after), float(reward), bool(end))
                chances[key] = chances.get(key, 0.0) + probability
    return found


def outcomes_of_ours(ours, state_of, turns):
    """The same of a JAX program, with equal chances for each of the turns that a step may take."""

    @jax.jit
    @jax.vmap
    def step(number, action, turn):
        state = state_of(number)
        after = ours.transition(state, action, None) if turns is None else ours.turned(state, action, turn)
        return ours.observation(after, None), ours.reward(state, action, after, None), ours.terminal(after, None)

    actions = int(ours.action_space.n)
    cases = [(s, a, t) for s in range(ours.observation_space.n) for a in range(actions) for t in turns or (0,)]
    found = {}
    for (state, action, _), *outcome in zip(cases, *map(np.asarray, step(*map(jnp.asarray, zip(*cases, strict=True)))),
                                            strict=True):  # fmt: skip
        chances = found.setdefault((state, action), {})
        after, reward, end = outcome
        key = (int(after), float(reward), bool(end))
        chances[key] = chances.get(key, 0.0) + 1 / len(turns or (0,))
    return found


def cliff_state(number):
    return cliff_walking.State(number, jnp.float32(0))


def taxi_state(number):
    rest, destination = jnp.divmod(number, 4)
    cell, passenger = jnp.divmod(rest, 5)
    return taxi.State(jnp.stack(jnp.divmod(cell, 5)), passenger, destination, jnp.bool_(False))


ON_ICE, ON_GROUND = (-1, 0, 1), (0,)
TABLES = {
    "the lake": ("FrozenLake-v1", {}, FrozenLake(), jnp.int32, ON_ICE),
    "the large lake": ("FrozenLake8x8-v1", {}, FrozenLake("8x8"), jnp.int32, ON_ICE),
    "the lake without ice": ("FrozenLake-v1", {"is_slippery": False}, FrozenLake(is_slippery=False), jnp.int32,
                             ON_GROUND),
    "the cliff": ("CliffWalking-v1", {}, CliffWalking(), cliff_state, ON_GROUND),
    "the slippery cliff": ("CliffWalkingSlippery-v1", {}, CliffWalking(is_slippery=True), cliff_state, ON_ICE),
    "the taxi": (next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry), {}, Taxi(), taxi_state,
                 None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kwargs", "ours", "state_of", "turns"), TABLES.values(), ids=TABLES)
def test_every_state_and_action_has_gymnasium_s_probabilities(name, kwargs, ours, state_of, turns):
    expected, found = outcomes_of_gymnasium(name, kwargs), outcomes_of_ours(ours, state_of, turns)
    assert expected.keys() == found.keys()
    for case, chances in expected.items():
        assert found[case] == pytest.approx(chances), case


def test_the_three_turns_on_ice_are_equally_likely():
    turns = np.asarray(jax.vmap(slip)(KEYS))
    counts = np.bincount(turns + 1, minlength=3)
    assert counts.sum() == len(KEYS)
    assert np.abs(counts - len(KEYS) / 3).max() < 5 * np.sqrt(len(KEYS) * 2 / 9)


@pytest.mark.parametrize(("ours", "turned"), [
    (FrozenLake(), True), (FrozenLake(is_slippery=False), False), (CliffWalking(), False),
    (CliffWalking(is_slippery=True), True),
])  # fmt: skip
def test_a_step_takes_the_turn_that_was_drawn(ours, turned):
    keys = KEYS[:100]
    state = ours.initial(None)
    after = jax.jit(jax.vmap(lambda key: ours.transition(state, 1, key)))(keys)
    expected = jax.jit(jax.vmap(lambda key: ours.turned(state, 1, slip(key) if turned else 0)))(keys)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(expected), strict=True):
        assert np.array_equal(one, other)
    assert (len(np.unique(jax.tree.leaves(after)[0])) > 1) == turned


@pytest.mark.parametrize(("name", "ours"), [("FrozenLake-v1", FrozenLake()), ("CliffWalking-v1", CliffWalking()),
                                            (TABLES["the taxi"][0], Taxi())])  # fmt: skip
def test_the_starts_of_toy_text_have_gymnasium_s_probabilities(name, ours):
    env = gymnasium.make(name).unwrapped
    starts = jax.jit(jax.vmap(lambda key: ours.observation(ours.initial(key), None)))(KEYS)
    counts = np.bincount(np.asarray(starts), minlength=env.observation_space.n)
    chances = env.initial_state_distrib
    assert np.array_equal(counts > 0, chances > 0)
    assert np.all(np.abs(counts - len(KEYS) * chances) <= 5 * np.sqrt(len(KEYS) * chances * (1 - chances)))


def test_the_taxi_s_mask_is_gymnasium_s():
    env = gymnasium.make(TABLES["the taxi"][0]).unwrapped
    masks = jax.jit(jax.vmap(lambda number: Taxi().action_mask(taxi_state(number))))(jnp.arange(500))
    assert np.array_equal(masks, [env.action_mask(state) for state in range(500)])


# --- what is around them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_spaces_and_limits_are_those_of_gymnasium(name):
    env = gymnasium.make(name)
    spec = COMPILED[name]
    assert spec.spaces.observation == env.observation_space or name.startswith("CartPole")  # whose bounds we leave out
    assert spec.spaces.action == env.action_space
    assert spec.max_episode_steps == (env.spec.max_episode_steps or 1000)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_table_says_what_the_program_is(name):
    spec = COMPILED[name]
    world = spec.build()
    assert (spec.spaces.observation, spec.spaces.action) == (world.observation_space, world.action_space)
    state = jax.jit(world.initial)(jax.random.key(0))
    assert spec.spaces.observation.contains(np.asarray(world.observation(state, None))[()])
    after = jax.eval_shape(world.transition, state, jnp.int32(0), jax.random.key(0))
    same = jax.tree.map(lambda one, other: (one.shape, one.dtype) == (other.shape, other.dtype), state, after)
    assert all(jax.tree.leaves(same))
    assert find_environment(name).build == spec.build  # equal, so that compiled programs are found again


@pytest.mark.parametrize(("name", "kwargs", "engine"), [
    ("FrozenLake-v1", {"is_slippery": False}, "compiled"),
    ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": True}, "compiled"),
    ("FrozenLake8x8-v1", {"map_name": "4x4"}, "compiled"),
    ("CliffWalking-v1", {"is_slippery": True}, "compiled"),
    ("FrozenLake-v1", {"is_slippery": False, "success_rate": 0.5}, "hosted"),
    ("FrozenLake-v1", {"desc": ["SG"]}, "hosted"),
    ("FrozenLake-v1", {"is_slippery": 0}, "hosted"),
    ("MountainCar-v0", {"goal_velocity": 0.01}, "hosted"),
])  # fmt: skip
def test_keyword_arguments_decide_who_plays(name, kwargs, engine):
    spec = find_environment(name, kwargs=kwargs)
    env = gymnasium.make(name, **kwargs)
    assert spec.engine == engine
    assert spec.spaces.observation_size == gymnasium.spaces.flatdim(env.observation_space)
    assert spec.spaces.action == env.action_space
    assert spec.max_episode_steps == (env.spec.max_episode_steps or 1000)
    if engine == "hosted" and name == "FrozenLake-v1":
        message = message_of(lambda: find_environment(name, "compiled", kwargs))
        assert 'compiled takes is_slippery (true, false) and map_name ("4x4", "8x8")' in message


NESTED = spaces.Dict(
    a=spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiBinary((2, 2))]),
    b=spaces.MultiDiscrete([[2, 3], [4, 5]]),
    c=spaces.Box(0, 255, (2, 3, 1), np.uint8),
    d=spaces.Box(-1, 1, (3,)),
)


@pytest.mark.parametrize("space", [NESTED, *NESTED.values(), *(COMPILED[name].spaces.observation for name in KNOWN)],
                         ids=str)  # fmt: skip
def test_agents_are_shown_what_hosted_environments_are_flattened_to(space):
    space.seed(0)
    for _ in range(5):
        value = space.sample()
        found = jax.jit(lambda value: shown(space, value))(value)
        assert found.dtype == jnp.float32
        assert np.array_equal(found, flatten(space, value))


def test_what_was_trained_goes_on_and_is_found_again(tmp_path):
    kwargs = {"is_slippery": False}
    run = mac.train("FrozenLake-v1", "reinforce", out=tmp_path / "run", progress=False, env_kwargs=kwargs, **SMALL)
    assert run.experiment.engine == "compiled"
    longer = mac.resume(run.path, episodes=3, progress=False)
    assert longer.finished
    assert longer.agent(0).action_probabilities(3).sum() == pytest.approx(1, rel=1e-5)


def test_a_program_without_a_counterpart_is_checked_by_its_table():
    strange = next(name for name in ("Taxi-v3", "Taxi-v4") if name not in gymnasium.registry)
    levels = [finding.level for finding in check(strange)]
    assert levels == ["ok", "ok"]

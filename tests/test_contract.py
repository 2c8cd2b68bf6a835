"""What every learner and every engine that calls it must keep: one test for each promise, for all of them alike.

Who adds a learner or an engine adds a case here; the tests stay as they are.
"""

import functools
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import arrays_of
from mean_actor_critic.engines import compiled_study, hosted_study, stepped_study, vector_study
from mean_actor_critic.learning import replay as ring
from mean_actor_critic.learning import sequences
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.learning.types import Acted, Batch, Context
from mean_actor_critic.spec.learners import (
    ENGINES,
    EPISODES,
    LEARNERS,
    VECTOR,
    EpisodicSetup,
    GameRolloutSetup,
    GeneralRolloutSetup,
    Part,
    ReplayedSetup,
    Shapes,
    learners_on,
)
from mean_actor_critic.spec.settings import settings_of
from mean_actor_critic.trees import named
from probes import RewardFromAction

pytestmark = pytest.mark.slow

_PERCEPTRON = {
    "hidden": (8,), "minibatches": 2, "batch_size": 4, "replay_capacity": 64, "max_episode_steps": 20, "discount": 0.99,
    "critic_target": "expected_sarsa",
}  # fmt: skip
_GAME = {
    "environments": 2, "screen_size": 36, "stack": 1, "evaluation_steps": 8, "evaluation_environments": 2,
    "evaluation_episodes": 2, "evaluation_interval": 40,
}  # fmt: skip


_REPLAYED = {
    "hidden": (8,), "environments": 2, "replay_capacity": 64, "max_episode_steps": 20, "sequences": 4,
    "sequence_length": 3, "updates_per_step": 2, "warm_up": 16, "evaluation_interval": 40, "evaluation_episodes": 2,
}  # fmt: skip


_ROLLOUT = {
    "hidden": (8,), "environments": 2, "rollout_steps": 3, "max_episode_steps": 20, "evaluation_interval": 40,
    "evaluation_episodes": 2,
}  # fmt: skip


class Case(NamedTuple):
    """A learner on an engine."""

    environment: Any
    budget: dict[str, int]
    settings: dict[str, Any]
    rate: str  # the setting that makes it diverge
    calm: float  # a value of it that does not
    wild: float  # and one that does
    trials: int  # of a run
    others: int  # trials of another run that has the same width


CASES = {
    ("compiled", "episodic"): Case(
        "CartPole-v0", {"episodes": 12}, {**_PERCEPTRON, "engine": "compiled"}, "actor_lr", 0.01, 1e6, 3, 3
    ),
    ("hosted", "episodic"): Case(
        "CartPole-v0", {"episodes": 12}, {**_PERCEPTRON, "engine": "hosted", "workers": 1}, "actor_lr", 0.01, 1e6, 3, 3
    ),
    ("compiled", "replayed"): Case(
        "CartPole-v0", {"steps": 96}, {**_REPLAYED, "engine": "compiled"}, "learning_rate", 1e-3, 1e9, 3, 3
    ),
    ("hosted", "replayed"): Case(
        "CartPole-v0", {"steps": 96}, {**_REPLAYED, "engine": "hosted", "workers": 1}, "learning_rate", 1e-3, 1e9, 3, 3
    ),
    ("compiled", "rollout"): Case(
        "CartPole-v0", {"steps": 96}, {**_ROLLOUT, "engine": "compiled"}, "learning_rate", 1e-3, 1e9, 3, 3
    ),
    ("hosted", "rollout"): Case(
        "CartPole-v0", {"steps": 96}, {**_ROLLOUT, "engine": "hosted", "workers": 1}, "learning_rate", 1e-3, 1e9, 3, 3
    ),
    ("atari", "rollout"): Case(
        "ALE/Pong-v5", {"steps": 96}, {**_GAME, "workers": 1}, "learning_rate", 1e-3, 1e9, 2, 1
    ),
}  # fmt: skip
of_all = pytest.mark.parametrize(("engine", "learner"), CASES)


def train(folder, engine, learner, **more):
    case = CASES[engine, learner]
    arguments = {**case.settings, case.rate: case.calm, "trials": case.trials, "seed": 7, **case.budget, **more}
    return mac.train(case.environment, out=folder, learner=learner, progress=False, **arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of a case, from its beginning to its end: trained once for all tests."""

    @functools.cache
    def of(engine, learner):
        return train(tmp_path_factory.mktemp("whole") / "run", engine, learner)

    return of


def of_trial(run, place):
    """All that a checkpoint holds of one trial, without the room that others need beside it."""
    own = f"trial/{place}/"
    found = {
        name.removeprefix(own): array if name.startswith("trial/") else array[place]
        for name, array in arrays_of(run).items()
        if not name.startswith("trial/") or name.startswith(own)
    }
    played = found.get("lengths", np.zeros(0)) > 0
    curves = {name: found[name][played] for name in ("returns", "lengths", "ends") if name in found}
    actions = found.get("state/playing/actions")
    trimmed = {} if actions is None else {"state/playing/actions": np.concatenate([row[row >= 0] for row in actions])}
    return {**found, **curves, **trimmed}


def assert_same(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def same_weights(one, other):
    weights, others = ({n: x for n, x in named(agent.networks).items() if "norm" not in n} for agent in (one, other))
    return all(np.array_equal(array, others[name]) for name, array in weights.items())


def test_every_learner_on_every_engine_has_a_case():
    assert set(CASES) == {(engine, learner) for engine in ENGINES for learner in learners_on(engine)}
    for (_, learner), case in CASES.items():
        assert case.rate in settings_of(LEARNERS[learner].hyper)


# --- runs ------------------------------------------------------------------------------------------------------------


@of_all
def test_the_same_seed_gives_the_same_bits_and_another_one_others(engine, learner, whole, tmp_path):
    run = whole(engine, learner)
    assert (run.experiment.engine, run.experiment.learner) == (engine, learner)
    assert run.finished
    again, other = (train(tmp_path / str(seed), engine, learner, seed=seed) for seed in (7, 8))
    assert_same(arrays_of(again), arrays_of(run))
    assert again.digest == run.digest != other.digest


@of_all
@pytest.mark.parametrize("segments", [1, 3])
def test_a_run_that_was_stopped_and_resumed_has_the_bits_of_one_that_was_not(
    engine, learner, segments, whole, tmp_path, monkeypatch
):
    seconds_of = ((compiled_study, 1e-9), (stepped_study, 1e-9), (hosted_study, 0.01), (vector_study, 0.01))
    for study, seconds in seconds_of:
        monkeypatch.setattr(study, "SEGMENT_SECONDS", seconds)  # so that it is stopped before the end
    left = [segments]

    def stop(progress):
        left[0] -= 1
        return mac.STOP if not left[0] else None

    run = train(tmp_path / "run", engine, learner, on_progress=stop)
    assert not run.finished
    monkeypatch.undo()
    assert mac.resume(run, progress=False).digest == whole(engine, learner).digest


@of_all
def test_a_trial_has_the_same_bits_whoever_its_neighbours_are(engine, learner, whole, tmp_path):
    """The last trial of one run is the first of another, among trials of other numbers, at the same width."""
    run, case = whole(engine, learner), CASES[engine, learner]
    last = case.trials - 1
    other = train(tmp_path / "run", engine, learner, first_trial=last, trials=case.others)
    assert other.manifest.width == run.manifest.width
    assert_same(of_trial(other, 0), of_trial(run, last))
    assert other.digest != run.digest


@of_all
def test_a_trial_that_diverges_is_marked_and_frozen_and_its_neighbours_do_not_notice(engine, learner, whole, tmp_path):
    run, case = whole(engine, learner), CASES[engine, learner]
    rates = [case.calm] * case.trials
    rates[1] = case.wild
    diverged = train(tmp_path / "run", engine, learner, **{case.rate: rates})
    assert diverged.finished
    assert not run.diverged_at.any()
    assert (diverged.diverged_at > 0).tolist() == [trial == 1 for trial in range(case.trials)]
    assert diverged.status[1].startswith("diverged at ")
    for name, array in of_trial(diverged, 1).items():
        if name.startswith("state/"):
            assert np.isfinite(array).all(), name
    for trial in range(case.trials):
        if trial != 1:
            assert_same(of_trial(diverged, trial), of_trial(run, trial))
    ((unit, amount),) = case.budget.items()
    longer = mac.resume(diverged, progress=False, **{unit: amount + amount // 2})
    changed = [not same_weights(longer.agent(trial), diverged.agent(trial)) for trial in range(case.trials)]
    assert changed == [trial != 1 for trial in range(case.trials)]


# --- probes ----------------------------------------------------------------------------------------------------------


class HostedRewardFromAction(gymnasium.Env):
    """The probe of that name for worker processes, which do not have JAX."""

    observation_space = RewardFromAction.observation_space
    action_space = RewardFromAction.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = float(self.np_random.choice([-1.0, 1.0]))
        return np.array([self.shown, 0, 0], np.float32), {}

    def step(self, action):
        reward = 1.0 if (self.shown > 0) == (action == 1) else -1.0
        return np.array([0, 0, 1], np.float32), reward, True, False, {}


PROBES = {"compiled": RewardFromAction, "hosted": lambda: HostedRewardFromAction}


@pytest.mark.parametrize(("engine", "learner"), [case for case in CASES if case[0] in PROBES])
def test_a_probe_is_solved(engine, learner, tmp_path):
    """Games have none that is cheap: `test_rollout` lets their learner learn what two screens ask for."""
    own = {
        "episodic": {"actor_lr": 0.05, "critic_lr": 0.05, "episodes": 200},
        "replayed": {"learning_rate": 0.01, "steps": 800, "evaluation_interval": 0},
        "rollout": {"learning_rate": 0.01, "steps": 1200, "evaluation_interval": 0},
    }[learner]
    settings = {**CASES[engine, learner].settings, "max_episode_steps": 5, **own}
    run = mac.train(PROBES[engine](), out=tmp_path / "run", learner=learner, trials=2, progress=False, **settings)
    for trial in range(2):
        agent = run.agent(trial)
        assert agent.action_probabilities(np.float32([1, 0, 0]))[1] > 0.9
        assert agent.action_probabilities(np.float32([-1, 0, 0]))[0] > 0.9


# --- learners alone --------------------------------------------------------------------------------------------------

ACTIONS, STEPS, ENVIRONMENTS = 3, 6, 2
# By the dataclass of its settings, of which a learner has others on games: settings, and the shape of an observation.
ALONE = {
    EpisodicSetup: (_PERCEPTRON, (4,)),
    GeneralRolloutSetup: ({**_ROLLOUT, "normalize_observations": True}, (4,)),
    GameRolloutSetup: (_GAME, (1, 36, 36)),
    ReplayedSetup: (_REPLAYED, (4,)),
}
of_all_alone = pytest.mark.parametrize("kind", ALONE)


def setup_of(kind):
    settings, shape = ALONE[kind]
    more = {"parts": (Part(VECTOR, shape),)} if "parts" in kind.__dataclass_fields__ else {}
    return kind(**more, **{name: settings[name] for name in settings_of(kind) if name in settings})


def test_every_learner_has_a_case_alone():
    assert set(ALONE) == {kind for spec in LEARNERS.values() for kind in spec.setups.values()}


class Lesson(NamedTuple):
    """All that a learner is given, of one trial, but for its settings."""

    hyper: Any
    state: Any
    batch: Batch
    sampled: Any


def lesson_of(kind, seed):
    """Something to learn from: an episode, with what was sampled from a replay, or a short rollout."""
    setup, random = setup_of(kind), np.random.default_rng(seed)
    functions = learner_of(setup)
    _, shape = ALONE[kind]
    state = functions.init(setup, Shapes(shape, ACTIONS), jax.random.key(seed))
    values = LEARNERS[setup.learner].hyper()
    hyper = type(values)(**{name: jnp.float32(value) for name, value in vars(values).items()})
    if LEARNERS[setup.learner].unit == EPISODES:
        length = 3 + seed % 3
        batch = Batch(
            observation=jnp.asarray(random.normal(size=(STEPS + 1, *shape)), jnp.float32),
            action=jnp.asarray(random.integers(ACTIONS, size=STEPS), jnp.int32),
            reward=jnp.where(jnp.arange(STEPS) < length, 1.0, 0.0),
            terminated=jnp.arange(STEPS) == length - 1,
            valid=jnp.arange(STEPS) < length,
        )
        memory = functions.memory(setup)
        replay = ring.add(ring.empty(memory.capacity, shape[0]), memory.rows(hyper, batch), batch.valid)
        return Lesson(hyper, state, batch, ring.sample(replay, jax.random.key(seed), memory.sampled))
    if kind is ReplayedSetup:
        return _steps_and_what_was_sampled(setup, hyper, state, random)
    if kind is GeneralRolloutSetup:
        return Lesson(hyper, state, _rollout(setup, random), None)
    seen = random.integers(0, 256, (2, ENVIRONMENTS, *shape), np.uint8)
    outputs = functions.act(setup, functions.actor(setup, state), jnp.asarray(seen[0]))
    one = (1, ENVIRONMENTS)
    batch = Batch(
        action=jnp.asarray(random.integers(ACTIONS, size=one), jnp.int32),
        reward=jnp.asarray(random.normal(size=one), jnp.float32),
        terminated=jnp.array([[False, True]]),
        truncated=jnp.zeros(one, bool),
        value_beyond=jnp.zeros(one),
        valid=jnp.ones(one, bool),
        acted=Acted((outputs,), jnp.asarray(seen[1]), None),
    )
    return Lesson(hyper, state, batch, None)


def _rollout(setup, random):
    """A rollout in which an episode ends, and one is cut off."""
    size = (setup.rollout_steps, ENVIRONMENTS)
    ends = np.zeros((2, *size), bool)
    ends[0, 0, 1] = ends[1, 1, 0] = True
    return Batch(
        observation=jnp.asarray(random.normal(size=(size[0] + 1, ENVIRONMENTS, 4)), jnp.float32),
        action=jnp.asarray(random.integers(ACTIONS, size=size), jnp.int32),
        reward=jnp.asarray(random.normal(size=size), jnp.float32),
        terminated=jnp.asarray(ends[0]),
        truncated=jnp.asarray(ends[1]),
        value_beyond=jnp.where(ends[1], 0.5, 0.0),
        valid=jnp.ones(size, bool),
    )


def _steps_and_what_was_sampled(setup, hyper, state, random):
    """A step of all environments, and runs of steps from a ring with more of them."""
    memory, one = learner_of(setup).memory(setup), (ENVIRONMENTS,)
    seen = jax.ShapeDtypeStruct(ALONE[ReplayedSetup][1], jnp.float32)
    replay = sequences.empty(memory.capacity, memory.environments, seen, ACTIONS)
    for step in range(12):
        shown = jnp.asarray(random.normal(size=(2, ENVIRONMENTS, *seen.shape)), jnp.float32)
        row = Rows(
            shown[0],
            jnp.asarray(random.integers(ACTIONS, size=one), jnp.int32),
            jnp.asarray(random.normal(size=one), jnp.float32),
            jnp.array([step == 5, False]),
            jnp.zeros(one, bool),
            jnp.full(one, 1 / ACTIONS),
        )
        replay = sequences.add(replay, row, row.terminated, shown[1])
    batch = Batch(
        observation=shown,
        action=row.action[None],
        reward=row.reward[None],
        terminated=row.terminated[None],
        truncated=jnp.zeros((1, *one), bool),
        valid=jnp.ones((1, *one), bool),
        behaviour=row.behaviour[None],
    )
    return Lesson(hyper, state, batch, sequences.sample(replay, jax.random.key(1), memory.sampled, memory.length))


def learning(kind):
    setup = setup_of(kind)
    return functools.partial(learner_of(setup).learn, setup, Context(jnp.int32(STEPS), jnp.int32(9), jnp.int32(99)))


@of_all_alone
def test_learning_changes_nothing_that_it_is_given_and_comes_to_the_same_again(kind):
    lesson, learn = lesson_of(kind, 0), jax.jit(learning(kind))
    before = jax.tree.map(np.array, lesson)
    first, second = learn(*lesson), learn(*lesson)
    jax.tree.map(np.testing.assert_array_equal, lesson, before)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    state, metrics = first
    assert jax.tree.structure(state) == jax.tree.structure(lesson.state)
    assert int(state.diverged_at) == 0
    assert int(metrics.length) == int(np.sum(lesson.batch.valid))
    np.testing.assert_allclose(metrics.episode_return, np.sum(lesson.batch.reward), rtol=1e-6)
    moved = [
        np.any(np.asarray(a) != np.asarray(b))
        for a, b in zip(*map(jax.tree.leaves, (state, lesson.state)), strict=True)
    ]
    assert any(moved)


@of_all_alone
def test_an_agent_keeps_what_plays(kind):
    """What an agent keeps makes an actor that acts as the state's own does."""
    setup, lesson = setup_of(kind), lesson_of(kind, 1)
    functions = learner_of(setup)
    _, shape = ALONE[kind]
    seen = np.random.default_rng(0).integers(0, 256, (5, *shape)).astype(np.uint8 if len(shape) > 1 else np.float32)
    own = functions.act(setup, functions.actor(setup, lesson.state), jnp.asarray(seen)).logits
    kept = functions.act(setup, functions.player(functions.keep(setup, lesson.state)), jnp.asarray(seen)).logits
    assert own.shape == (5, ACTIONS)
    np.testing.assert_array_equal(own, kept)


@pytest.mark.parametrize("kind", [kind for kind in ALONE if kind is not GameRolloutSetup])
def test_learning_of_two_trials_together_is_that_of_each_alone(kind):
    """For learners whose trials engines put into one program; on games there is a program for each trial."""
    lessons = [lesson_of(kind, seed) for seed in (0, 1)]
    learn = learning(kind)
    together = jax.jit(jax.vmap(learn))(*jax.tree.map(lambda *both: jnp.stack(both), *lessons))
    for place, lesson in enumerate(lessons):
        alone = jax.jit(learn)(*lesson)
        own = jax.tree.map(lambda x, place=place: x[place], together)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), own, alone)

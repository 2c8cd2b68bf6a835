"""Masks of legal actions: no other is ever taken or learned of, by any learner on any engine."""

import dataclasses
import functools
import re

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.experimental.functional import FuncEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import masked_rooms
import mean_actor_critic as mac
from masked_rooms import ACTIONS, ROOMS
from mean_actor_critic.environments.catalogue import COMPILED, check, find_environment
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted import fleet, worker
from mean_actor_critic.environments.hosted.factory import Factory
from mean_actor_critic.environments.spaces import Spaces, spaces_from_json
from mean_actor_critic.errors import EnvironmentFault, InputError
from mean_actor_critic.learning import replay as ring
from mean_actor_critic.learning import scales
from mean_actor_critic.learning.estimators import ESTIMATORS
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import Layer, Networks, inverse_cdf, legal, softmax
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.learning.types import Batch, Context, Evidence
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.learners import LEARNERS, VECTOR, Part, Shapes

TRAPPED = -100.0
# equal settings share compiled programs
SMALL = {
    "episodic": {"hidden": (16,), "minibatches": 4, "batch_size": 8, "replay_capacity": 200, "episodes": 30,
                 "actor_lr": 0.01, "critic_lr": 0.02, "discount": 0.95},
    "replayed": {"hidden": (16,), "environments": 2, "replay_capacity": 200, "sequences": 4, "sequence_length": 3,
                 "updates_per_step": 2, "warm_up": 40, "steps": 160},
    "rollout": {"hidden": (16,), "environments": 2, "rollout_steps": 3, "learning_rate": 0.01, "steps": 480},
}  # fmt: skip


class Rooms(FuncEnv):
    """The rooms of `masked_rooms` as a JAX program. The state is the room; beyond the last one is a trap."""

    observation_space = gymnasium.spaces.Discrete(ROOMS + 2)
    action_space = gymnasium.spaces.Discrete(ACTIONS)
    start = 0

    def initial(self, rng, params=None):
        return jnp.int32(self.start)

    def transition(self, state, action, rng, params=None):
        onwards = jnp.where(action == state, state + 1, 0)
        return jnp.where(self.action_mask(state)[action], onwards, ROOMS + 1)

    def observation(self, state, rng, params=None):
        return state

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.where(next_state == ROOMS, 1.0, jnp.where(next_state > ROOMS, TRAPPED, 0.0))

    def terminal(self, state, rng, params=None):
        return state >= ROOMS

    def action_mask(self, state):
        door = jnp.arange(ACTIONS)
        return ((door == state) | (door == state + 2)) & (state < ROOMS)


class DeadEnd(Rooms):
    """There is nothing to do in the third room."""

    def action_mask(self, state):
        return super().action_mask(state) & (state != 2)


class TooShort(Rooms):
    """A mask of fewer actions than there are."""

    def action_mask(self, state):
        return super().action_mask(state)[:-1]


def train(environment, learner, folder, **more):
    arguments = {"trials": 2, "seed": 3, "max_episode_steps": 20, **SMALL[learner], **more}
    return mac.train(environment, learner=learner, out=folder, progress=False, **arguments)


def returns_of(run):
    return np.concatenate([run.returns[trial, :played] for trial, played in enumerate(run.episodes_done)])


ENGINES = {"compiled": Rooms(), "hosted": masked_rooms.make}


# --- runs ------------------------------------------------------------------------------------------------------------


def assert_never_trapped(run, environment):
    """In training and evaluations: hosted rooms would have raised, compiled ones would have fined."""
    scores = run.evaluations.scores
    again = mac.evaluate(run, 5, deterministic=True, environment=environment)
    for returns in (returns_of(run), scores[np.isfinite(scores)], again):
        assert len(returns) > 0
        assert set(np.unique(returns)) <= {0.0, 1.0}


@pytest.mark.parametrize("learner", SMALL)
def test_an_illegal_action_is_never_taken(learner, tmp_path):
    every = {"episodic": 15, "replayed": 80, "rollout": 80}[learner]
    run = train(masked_rooms.make, learner, tmp_path / "run", evaluate_every=every, evaluation_episodes=3, workers=1)
    assert run.experiment.setup.masked
    assert_never_trapped(run, masked_rooms.make)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_masked_run_goes_on_in_mid_episode_to_the_same_bits(engine, tmp_path):
    more = {"workers": 1} if engine == "hosted" else {}
    begun = train(ENGINES[engine], "replayed", tmp_path / "run", steps=90, **more)
    longer = mac.resume(begun, ENGINES[engine], progress=False, steps=130)
    assert longer.digest == train(ENGINES[engine], "replayed", tmp_path / "whole", steps=130, **more).digest


LEARNING = {"episodic": {"episodes": 400}, "replayed": {"steps": 2400}, "rollout": {"steps": 9600}}


@pytest.mark.parametrize("learner", LEARNING)
def test_a_masked_task_is_learned_where_the_unmasked_one_is_not(learner, tmp_path):
    own = {**LEARNING[learner], "evaluation_episodes": 20}
    own["evaluate_every"] = next(iter(LEARNING[learner].values())) // 2
    masked = train(Rooms(), learner, tmp_path / "masked", **own)
    unmasked = train(Rooms(), learner, tmp_path / "unmasked", action_masks=False, **own)
    assert masked.agent(0).spaces.masked
    assert not unmasked.experiment.setup.masked
    assert not unmasked.agent(0).spaces.masked
    assert_never_trapped(masked, Rooms())
    assert returns_of(unmasked).min() == TRAPPED
    means = [mac.evaluate(run, 5, deterministic=True, environment=Rooms()).mean() for run in (masked, unmasked)]
    assert means[0] == 1
    assert means[1] <= 0


@pytest.mark.parametrize("way", ["info", "method"])
@pytest.mark.parametrize("made", [masked_rooms.make, masked_rooms.make_vector])
def test_masks_are_found_by_either_way_of_telling_them(way, made):
    found = find_environment(made, kwargs={"way": way})
    assert found.spaces.masked == (made is masked_rooms.make or way == "info")
    assert spaces_from_json(found.spaces.to_json()).masked == found.spaces.masked
    assert not find_environment(made, kwargs={"way": "nothing"}).spaces.masked


def test_a_vector_environment_of_one_and_a_method_are_heard_too(tmp_path):
    for made, way in ((masked_rooms.make_vector, "info"), (masked_rooms.make, "method")):
        run = train(made, "episodic", tmp_path / way, episodes=6, workers=1, env_kwargs={"way": way})
        assert set(np.unique(returns_of(run))) <= {0.0, 1.0}


def test_what_the_run_began_with_decides_whether_masks_are_heard(tmp_path):
    run = train(Rooms(), "episodic", tmp_path / "run", episodes=6, action_masks=False)
    assert not run.manifest.spaces.masked
    longer = mac.resume(run, Rooms(), progress=False, episodes=12)
    assert longer.finished
    assert not longer.experiment.setup.masked


@pytest.mark.parametrize("name", COMPILED)
def test_it_is_known_which_of_our_environments_tell(name):
    assert COMPILED[name].spaces.masked == hasattr(COMPILED[name].build(), "action_mask")


# --- learning --------------------------------------------------------------------------------------------------------

N, STEPS, SIZE, COUNT = 5, 7, 3, 2  # actions, steps, numbers of an observation, environments; see `of_fewer`
SETUPS = {
    # without Adam, which makes much of what rounding leaves of a gradient
    "episodic": {"hidden": (8,), "minibatches": 2, "batch_size": 4, "replay_capacity": 12, "optimizer": "sgd"},
    "replayed": {"hidden": (8,), "environments": COUNT, "sequences": 4, "sequence_length": 3, "updates_per_step": 1,
                 "replay_capacity": 32, "warm_up": 0, "parts": (Part(VECTOR, (SIZE,)),)},
    "rollout": {"hidden": (8,), "environments": COUNT, "rollout_steps": 3, "parts": (Part(VECTOR, (SIZE,)),)},
}  # fmt: skip
CASES = [
    ("episodic", "reinforce", {}),
    ("episodic", "advantage_actor_critic", {}),
    ("episodic", "mac", {}),
    ("episodic", "mac", {"critic_target": "monte_carlo"}),
    ("replayed", "advantage_actor_critic", {}),
    ("replayed", "q_learning", {}),
    ("replayed", "mac", {}),
    ("replayed", "mac", {"policy_step": "gradient", "critic_target": "tree_backup"}),
    ("rollout", "mac", {}),
    ("rollout", "a2c", {}),
]


def lesson_of(setup, hyper, allowed, seed):
    """A state of a learner, and something to learn from in which only the actions `allowed` are legal anywhere."""
    random, learner = np.random.default_rng(seed), learner_of(setup)
    state = jax.tree.map(np.asarray, beginning(setup)(jax.random.key(seed)))
    mask, memory = np.isin(np.arange(N), allowed), learner.memory(setup)

    def numbers(*shape):
        return random.normal(size=shape).astype(np.float32)

    def actions(*shape):
        return random.choice(allowed, size=shape).astype(np.int32)

    if setup.learner == "episodic":
        batch = Batch(
            observation=numbers(STEPS + 1, SIZE),
            action=actions(STEPS),
            reward=numbers(STEPS),
            terminated=np.zeros(STEPS, bool),
            valid=np.ones(STEPS, bool),
            mask=np.broadcast_to(mask, (STEPS + 1, N)),
        )
        if memory is None:
            return state, batch, None
        index = random.integers(STEPS, size=memory.sampled)
        return state, batch, jax.tree.map(lambda rows: np.asarray(rows)[index], memory.rows(hyper, batch))
    if setup.learner == "rollout":
        shape = (setup.rollout_steps, COUNT)
        batch = Batch(
            action=actions(*shape),
            reward=numbers(*shape),
            terminated=random.random(shape) < 0.2,
            valid=np.ones(shape, bool),
            observation=numbers(shape[0] + 1, COUNT, SIZE),
            truncated=np.zeros(shape, bool),
            value_beyond=np.zeros(shape, np.float32),
            behaviour=np.ones(shape, np.float32),
            mask=np.broadcast_to(mask, (shape[0] + 1, COUNT, N)),
        )
        return state, batch, None
    shape = (*memory.sampled, memory.length)
    last = random.random(shape) < 0.2
    terminal = last & (random.random(shape) < 0.5)  # where there may be nothing to do
    rows = Rows(
        observation=numbers(*shape, SIZE),
        action=actions(*shape),
        reward=numbers(*shape),
        terminated=np.roll(terminal, -1, axis=-1),
        last=last,
        behaviour=np.full(shape, 0.4, np.float32),
        mask=mask & ~terminal[..., None],
    )
    one = (1, COUNT)
    batch = Batch(
        action=actions(*one),
        reward=numbers(*one),
        terminated=np.zeros(one, bool),
        valid=np.ones(one, bool),
        observation=numbers(2, COUNT, SIZE),
        truncated=np.zeros(one, bool),
        behaviour=np.ones(one, np.float32),
        mask=np.broadcast_to(mask, (2, COUNT, N)),
    )
    return state, batch, rows


def columns(x, some):
    """The places in the last dimension of an array that are about some of the actions; None if it is about none.

    There is one for each action, or two where a head is for policy and values, or one more for the state's value.
    """
    size = np.shape(x)[-1] if np.ndim(x) else 0
    return {N: [*some], 2 * N: [*some, *(N + np.array(some))], N + 1: [*some, N]}.get(size)


def of_fewer(tree, allowed):
    """The same in an environment that has no other actions."""

    def fewer(x):
        some = columns(x, allowed)
        return x if some is None else np.asarray(x)[..., some]

    if isinstance(tree, Batch | Rows | ring.Transitions):
        masks = {name: () for name in ("mask", "next_mask") if name in tree._fields}
        return tree._replace(action=np.searchsorted(allowed, tree.action).astype(np.int32), **masks)
    return jax.tree.map(fewer, tree)


@functools.cache
def beginning(setup):
    return jax.jit(functools.partial(learner_of(setup).init, setup, Shapes((SIZE,), N)))


@functools.cache
def learning(setup):
    return jax.jit(functools.partial(learner_of(setup).learn, setup, Context(jnp.int32(STEPS), jnp.int32(9), 99)))


@pytest.mark.parametrize(("learner", "algorithm", "more"), CASES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 99), allowed=st.sets(st.integers(0, N - 1), min_size=3, max_size=3).map(sorted))
def test_learning_is_that_of_an_environment_without_the_illegal_actions(learner, algorithm, more, seed, allowed):
    """Gradients are those that there would be if there were only the legal actions, and 0 for the others."""
    setup = LEARNERS[learner].setups["compiled"](algorithm=algorithm, masked=True, **SETUPS[learner], **more)
    values = LEARNERS[learner].hyper()
    hyper = type(values)(**{name: jnp.float32(value) for name, value in vars(values).items()})
    lesson = lesson_of(setup, hyper, allowed, seed)
    learned, _ = learning(setup)(hyper, *lesson)
    fewer, _ = learning(dataclasses.replace(setup, masked=False))(hyper, *(of_fewer(part, allowed) for part in lesson))
    # of Adam the averages: they are sums of gradients
    part = {"replayed": "optimizer", "episodic": "policy", "rollout": "network"}[learner]
    ours, theirs = (jax.tree.leaves(getattr(state, part)) for state in (of_fewer(learned, allowed), fewer))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-6)
    forbidden = np.setdiff1d(np.arange(N), allowed)
    networks = {"replayed": "networks", "episodic": "policy", "rollout": "network"}[learner]
    pairs = zip(*(jax.tree.leaves(getattr(state, networks)) for state in (learned, lesson[0])), strict=True)
    heads = [pair for pair in pairs if columns(pair[0], forbidden) is not None]
    assert len(heads) == 2  # weights and biases
    for new, old in heads:
        some = columns(new, forbidden)[: len(forbidden)]
        np.testing.assert_array_equal(new[..., some], old[..., some])


masks = st.lists(st.booleans(), min_size=N, max_size=N).filter(any)
logits = st.lists(st.floats(-50, 50, width=32), min_size=N, max_size=N)


@given(masks, logits)
@settings(max_examples=200, deadline=None)
def test_an_illegal_action_has_probability_0_and_the_others_those_of_a_choice_among_them(mask, given):
    mask, given = np.array(mask), np.float32(given)
    policy = softmax(legal(given, mask))
    assert (policy[~mask] == 0).all()
    np.testing.assert_allclose(policy[mask], softmax(given[mask]), rtol=1e-6)


@given(masks, logits, st.one_of(st.floats(0, 1, exclude_max=True, width=32), st.just(np.float32(1 - 2**-24))))
@settings(max_examples=200, deadline=None)
def test_no_draw_takes_an_illegal_action(mask, given, uniform):
    mask = np.array(mask)
    policy = softmax(legal(np.float32(given), mask))
    for xp in (np, jnp):
        action = int(inverse_cdf(xp.asarray(policy), xp.asarray(np.float32(uniform)), masked=True))
        assert mask[action]


def test_what_rounding_leaves_is_not_left_to_an_illegal_last_action():
    policy = np.float32([0.3, 0.69999, 0.0])  # which sums to less than 1, as rounding may have it
    assert inverse_cdf(policy, np.float32(0.999999)) == 2
    assert inverse_cdf(policy, np.float32(0.999999), masked=True) == 1


def test_an_estimator_of_one_s_own_may_weigh_illegal_actions_with_what_it_likes(tmp_path):
    def all_alike(evidence):
        return jnp.ones_like(evidence.policy) * 7.0

    run = train(Rooms(), "episodic", tmp_path / "run", episodes=8, algorithm=all_alike)
    assert not run.diverged_at.any()
    assert run.finished


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_illegal_actions_nothing(name):
    random, mask = np.random.default_rng(0), jnp.array([[True, False, True, False, True]] * STEPS)
    policy = softmax(legal(jnp.asarray(random.normal(size=(STEPS, N)), jnp.float32), mask))
    evidence = Evidence(policy, jnp.asarray(random.normal(size=(STEPS, N))), jnp.ones(STEPS), jnp.float32(0),
                        jnp.array([0, 2, 4] * STEPS)[:STEPS], mask)  # fmt: skip
    assert (np.asarray(ESTIMATORS[name](evidence))[:, [1, 3]] == 0).all()


def test_entropy_is_a_share_of_what_it_can_be_among_legal_actions():
    weight, mask = jnp.full(2, 0.5), jnp.array([[True, True, False, False, True], [False, False, True, False, False]])
    np.testing.assert_allclose(scales.most_entropy(weight, N, mask), 0.5 * np.log(3), rtol=1e-6)


# --- faults ----------------------------------------------------------------------------------------------------------

MASKS = {
    "too short": (np.ones(3), r"action_mask has shape \(3,\), not \(8,\)"),
    "not a number": (np.full(8, np.nan), r"action_mask is \[nan, .*\], not 0 or 1 for each action"),
    "two": (np.full(8, 2), r"action_mask is \[2, 2, 2, 2, 2, 2, 2, 2\], not 0 or 1 for each action"),
    "words": (np.full(8, "yes"), r"action_mask is \['yes', .*\], not 0 or 1 for each action"),
    "ragged": ([[1], [2, 3]], "action_mask is not an array"),
    "nothing legal": (np.zeros(8), "action_mask has no legal action"),
    "missing": ("nothing", "action_mask is missing, which there was when the environment was looked at"),
}


def lane(**options):
    """A worker's lane, in this process, which is quicker."""
    spaces = masked_rooms.make().observation_space, masked_rooms.make().action_space
    size = boards.Size(lanes=1, time=20, observation=ROOMS + 1, workers=1, mask=ACTIONS)
    with fleet._shared_file() as memory:
        memory.truncate(boards.bytes_of(size))
        board = boards.board_on(memory.fileno(), size)
    found = worker.check_spaces("rooms", *spaces, masked=True)
    return board, worker._Lane(0, Factory(masked_rooms.make, options), found, board, limit=20)


@pytest.mark.parametrize("what", MASKS)
@pytest.mark.parametrize("at", [0, 2])
def test_a_mask_that_cannot_be_used_is_a_fault(what, at):
    mask, words = MASKS[what]
    board, own = lane(fault=mask, at=at)

    def play():
        own.reset()
        own.step(0)
        own.step(1)

    with pytest.raises(worker.Fault) as caught:
        play()
    assert own.time == at
    np.testing.assert_array_equal(
        board.mask[0, :at], np.array([masked_rooms.legal_in(room) for room in range(at)]).reshape(at, ACTIONS)
    )
    assert re.fullmatch(words, str(caught.value))


@pytest.mark.parametrize("fault", [None, "nothing", np.zeros(8)])
def test_the_state_that_an_episode_ends_in_needs_no_legal_action(fault):
    board, own = lane(fault=fault, at=ROOMS)
    own.reset()
    for room in range(ROOMS):
        own.step(room)
    assert board.status[0] == boards.TERMINATED
    assert board.mask[0, : ROOMS + 1].any(axis=-1).all()


def test_a_state_without_a_legal_action_is_named_with_trial_episode_and_step(tmp_path):
    kwargs = {"fault": np.zeros(8).tolist(), "at": 2}
    for learner in SMALL:
        with pytest.raises(EnvironmentFault) as caught:
            train(masked_rooms.make, learner, tmp_path / learner, workers=1, env_kwargs=kwargs)
        place = r"masked_rooms:make: trial \d, episode \d, step 2: action_mask has no legal action; whole episodes"
        assert re.match(place, str(caught.value))


def test_so_is_one_of_a_jax_program_and_what_was_learned_before_it_is_kept(tmp_path):
    words = {"episodic": r"episode \d+", "replayed": "an episode in training", "rollout": "an episode in training"}
    for learner, when in words.items():
        with pytest.raises(EnvironmentFault) as caught:
            train(DeadEnd(), learner, tmp_path / learner)
        place = rf"DeadEnd: trial \d, {when}, step \d+: action_mask has no legal action; whole episodes are kept"
        assert re.match(place, str(caught.value))
        run = mac.Run.load(tmp_path / learner)
        assert set(np.unique(returns_of(run))) <= {0.0}
        assert all(np.isfinite(array).all() for array in jax.tree.leaves(run.agent(0).networks))


def test_an_evaluation_names_it_too(tmp_path):
    run = train(Rooms(), "episodic", tmp_path / "run", episodes=6)
    other = type("Rooms", (DeadEnd,), {})()
    with pytest.raises(
        EnvironmentFault, match=r"Rooms: trial 0, episode \d of an evaluation, step \d: action_mask has"
    ):
        mac.evaluate(run, 4, environment=other)


def test_a_jax_program_s_mask_must_be_one_of_its_actions(tmp_path):
    with pytest.raises(InputError) as caught:
        train(TooShort(), "episodic", tmp_path / "run")
    assert str(caught.value) == ("action_mask: 'bool of shape (7,)' cannot be used; allowed: 8 booleans, for TooShort")
    assert not (tmp_path / "run").exists()


# --- agents ----------------------------------------------------------------------------------------------------------


def agent_of(start=0):
    """An agent of four actions whose logits are given by biases."""
    space = gymnasium.spaces.Discrete(4, start=start)
    spaces = Spaces(gymnasium.spaces.Box(-1, 1, (2,)), space)
    experiment = make_experiment("CartPole-v0", "mac", 1, 1, 0, {"hidden": ()})
    layers = (Layer(np.zeros((2, 4), np.float32), np.float32([0, 1, 2, 3])),)
    return Agent(experiment, spaces, 0, Networks(layers, layers))


def test_an_agent_takes_legal_actions_of_one_observation_or_a_batch():
    agent = agent_of(start=10)
    one, mask = np.zeros(2), np.int8([1, 1, 0, 0])
    assert agent.predict(one, deterministic=True)[0] == 13
    assert agent.predict(one, deterministic=True, action_masks=mask)[0] == 11
    probabilities = agent.action_probabilities(one, mask)
    np.testing.assert_allclose(probabilities, [*softmax(np.float32([0, 1])), 0, 0], rtol=1e-6)
    batch, many = np.zeros((500, 2)), np.tile([True, False, True, False], (500, 1))
    assert set(agent.predict(batch, action_masks=many)[0].tolist()) == {10, 12}
    assert set(agent.predict(batch, action_masks=[False, True, True, False])[0].tolist()) == {11, 12}  # one for all
    np.testing.assert_array_equal(agent.action_probabilities(one, np.ones(4)), agent.action_probabilities(one))


@pytest.mark.parametrize(
    "mask",
    [[1, 1, 1], np.zeros(4), [1, 2, 0, 0], [np.nan, 1, 1, 1], 1, "yes", [[1], [1, 0]], np.ones((3, 4)), [None] * 4],
)
def test_an_agent_refuses_masks_that_say_nothing(mask):
    with pytest.raises(InputError) as caught:
        agent_of().predict(np.zeros((2, 2)), action_masks=mask)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("action_masks: ")


def test_an_agent_without_a_policy_takes_the_best_legal_action(tmp_path):
    own = {"algorithm": "q_learning", "steps": 400, "exploration": 0.1}
    agent = train(Rooms(), "replayed", tmp_path / "run", **own).agent(0)
    for room in range(ROOMS):
        mask = masked_rooms.legal_in(room)
        chosen = int(agent.predict(room, action_masks=mask)[0])
        assert mask[chosen]
        others = np.delete(np.arange(ACTIONS), chosen)
        assert int(agent.predict(room, action_masks=mask - np.eye(ACTIONS)[chosen])[0]) in others


# --- mac check -------------------------------------------------------------------------------------------------------


def findings(**options):
    return [finding for finding in check(masked_rooms.make, env_kwargs=options) if "mask" in finding.text]


def test_a_check_says_whether_masks_are_found():
    (found,) = findings()
    assert found.level == "ok"
    assert found.text.startswith('info["action_mask"] tells legal actions, 2 to 2 of 8')
    (found,) = findings(way="method")
    assert found.text.startswith("action_masks() tells legal actions")
    assert findings(way="nothing", trap=False) == []


@pytest.mark.parametrize("what", MASKS)
def test_a_check_finds_masks_that_cannot_be_used(what):
    mask, words = MASKS[what]
    (found,) = findings(fault=mask, at=1, trap=False)
    assert found.level == "problem"
    assert re.search(words.partition(",")[0].removeprefix("action_mask "), found.text)

"""What environments show and take, and the ways to name one."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from hypothesis import given, settings
from hypothesis import strategies as st

import hosted_environments as hosted
from helpers import BESIDE_TESTS, arrays_of, assert_one_line, assert_refused, mac, message_of, run_mac, tiny_run
from mean_actor_critic.environments import catalogue
from mean_actor_critic.environments.catalogue import environment_of, find_environment
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted import worker
from mean_actor_critic.environments.spaces import (
    FormError,
    Spaces,
    check_spaces,
    flatten,
    parts_of,
    size,
    spaces_from_json,
    texts_in,
)
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.train import resume, train

SHORT_WORDS = ("--algorithm", "reinforce", "--episodes", "2", "--workers", "1", "--set", "hidden=8")
TWO = spaces.Discrete(2)


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def short_run(folder, environment, **more):
    """As cheap as a hosted run can be: no critic, one trial."""
    given = {"algorithm": "reinforce", "hidden": (8,), "trials": 1, "episodes": 2, "workers": 1, **more}
    return train(environment, out=tempfile.mkdtemp(dir=folder), **given)


# --- flattening ------------------------------------------------------------------------------------------------------

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
FLOATS = st.builds(
    lambda shape, dtype, bound: spaces.Box(-bound, bound, shape, dtype),
    SHAPES, st.sampled_from([np.float32, np.float64]), st.sampled_from([1.0, np.inf]),
)  # fmt: skip
WHOLES = st.builds(
    lambda shape, dtype: spaces.Box(0, 100, shape, dtype),
    SHAPES, st.sampled_from([np.uint8, np.int8, np.int32, np.int64]),
)  # fmt: skip
CHOICES = st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-9, 9))


@st.composite
def multi_discretes(draw):
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    return spaces.MultiDiscrete(random.integers(1, 5, shape), start=random.integers(-9, 9, shape))


BINARIES = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(spaces.MultiBinary)
KEYS = st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=3, unique=True)


def composites(parts):
    three = st.lists(parts, min_size=3, max_size=3)
    return st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        st.builds(lambda keys, values: spaces.Dict(list(zip(keys, values, strict=False))), KEYS, three),
    )


ANY_SPACE = st.recursive(
    st.one_of(FLOATS, WHOLES, CHOICES, multi_discretes(), BINARIES), composites, max_leaves=5
)  # fmt: skip


def samples(space, seed, count):
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def as_gymnasium(space, value):
    return np.asarray(spaces.flatten(space, value), np.float32)


def any_values(test):
    return settings(max_examples=60, deadline=None)(given(ANY_SPACE, st.integers(0, 999))(test))


@any_values
def test_values_flatten_as_gymnasium_flattens_them(space, seed):
    (value,) = samples(space, seed, 1)
    flat = flatten(space, value)
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, as_gymnasium(space, value))
    assert flat.shape == (size(space),) == (spaces.flatdim(space),)


@any_values
def test_a_batch_flattens_to_the_stack_of_its_members(space, seed):
    values = samples(space, seed, 3)
    batch = concatenate(space, values, create_empty_array(space, 3))
    np.testing.assert_array_equal(flatten(space, batch), [flatten(space, value) for value in values])


@any_values
def test_spaces_come_back_from_json_as_they_were(space, seed):
    before = Spaces(space, spaces.Discrete(3, start=seed))
    after = spaces_from_json(json.loads(json.dumps(before.to_json())))
    assert after.to_json() == before.to_json()
    assert (after.actions, after.first_action, after.observation_size) == (3, seed, size(space))
    (value,) = samples(space, seed, 1)
    np.testing.assert_array_equal(flatten(after.observation, value), as_gymnasium(space, value))


PLACE_AND_CHOICE = spaces.Dict(place=spaces.Box(-1, 1, (2,)), choice=spaces.Discrete(3, start=5))
WRONG_FORMS = [
    (PLACE_AND_CHOICE, {"place": np.zeros(2)}, ["place", "choice"]),
    (PLACE_AND_CHOICE, np.zeros(5), ["ndarray", "place", "choice"]),
    (PLACE_AND_CHOICE, {"place": np.zeros(3), "choice": 5}, ["['place']", "(3,)", "(2,)"]),
    (PLACE_AND_CHOICE, {"place": np.zeros(2), "choice": 5.0}, ["['choice']", "float64", "int64"]),
    (PLACE_AND_CHOICE, {"place": np.zeros(2), "choice": 8}, ["['choice']", "3 choices"]),
    (PLACE_AND_CHOICE, {"place": np.zeros(2), "choice": 4}, ["['choice']", "3 choices"]),
    (PLACE_AND_CHOICE, {"place": np.zeros((7, 2)), "choice": 5}, ["7"]),
    (spaces.Tuple([TWO, PLACE_AND_CHOICE]), (1, {"place": "here", "choice": 5}), ["[1]['place']", "dtype"]),
    (spaces.Tuple([TWO, TWO]), (1,), ["tuple of 2"]),
    (spaces.Tuple([TWO, TWO]), {"a": 1, "b": 1}, ["dict", "tuple of 2"]),
    (spaces.Box(-1, 1, (2, 3)), np.zeros(6), ["(6,)", "(2, 3)"]),
    (spaces.Box(-1, 1, (2,)), [None, 1.0], ["object", "float32"]),
    (spaces.MultiDiscrete([2, 3], start=[0, 4]), np.array([1, 7]), ["3 choices"]),
    (spaces.MultiBinary(2), np.array([0.0, 1.0]), ["float64", "int8"]),
]


@pytest.mark.parametrize(("space", "value", "words"), WRONG_FORMS)
def test_a_value_of_another_form_is_refused_by_naming_the_part(space, value, words):
    with pytest.raises(FormError) as fault:
        flatten(space, value)
    assert_one_line(str(fault.value))
    for word in words:
        assert word in str(fault.value)


@pytest.fixture
def lane_of():
    """Makes a worker's lane for an environment that shows certain observations."""

    def make(space, *observations):
        class Shows(hosted.Refused):
            def reset(self, *, seed=None, options=None):
                self.left = list(observations)
                return self.left.pop(0), {}

            def step(self, action):
                return self.left.pop(0), 0.0, False, False, {}

        own = Spaces(space, TWO)
        board_size = boards.Size(1, 5, own.observation_size, 1)
        with tempfile.TemporaryFile() as memory:
            memory.truncate(boards.bytes_of(board_size))
            board = boards.board_on(memory.fileno(), board_size)
        return worker._Lane(0, lambda: Shows(space), own, board, 5), board

    return make


def test_a_worker_writes_each_observation_flattened(lane_of):
    shown = [{"place": np.array([0.5, i], np.float32), "choice": 5 + i} for i in range(2)]
    lane, board = lane_of(PLACE_AND_CHOICE, *shown)
    lane.reset()
    lane.step(0)
    np.testing.assert_array_equal(board.observation[0, :2], [as_gymnasium(PLACE_AND_CHOICE, one) for one in shown])


NOT_SINGLE = [
    (spaces.Box(-1, 1, (2,)), np.zeros(2, np.float32), np.zeros((3, 2), np.float32)),
    (spaces.Box(-1, 1, (2,)), np.zeros(2, np.float32), np.zeros((1, 2), np.float32)),
    (spaces.Box(-1, 1, (2, 3)), np.zeros((2, 3), np.float32), np.zeros(6, np.float32)),
    (spaces.Box(0, 9, (3,), np.uint8), np.zeros(3, np.uint8), np.zeros(3, np.float32)),
    (spaces.Discrete(3), 1, np.array([1])),
    (spaces.MultiBinary(3), np.zeros(3, np.int8), np.zeros(3, np.float32)),
    (PLACE_AND_CHOICE, {"place": np.zeros(2), "choice": 5}, {"place": np.zeros((4, 2)), "choice": 5}),
    (PLACE_AND_CHOICE, {"place": np.zeros(2), "choice": 5}, np.zeros(5, np.float32)),
]


@pytest.mark.parametrize(("space", "right", "wrong"), NOT_SINGLE)
def test_a_worker_takes_nothing_but_single_observations_of_the_space(lane_of, space, right, wrong):
    lane, _ = lane_of(space, right, wrong)
    lane.reset()
    with pytest.raises(worker.Fault, match=r"^observation ") as fault:
        lane.step(0)
    assert_one_line(str(fault.value))


# --- what is refused -------------------------------------------------------------------------------------------------

UNSUPPORTED = {
    "Graph": spaces.Graph(spaces.Box(-1, 1, (3,)), None),
    "Sequence": spaces.Sequence(TWO),
    "OneOf": spaces.OneOf([TWO, TWO]),
}


@pytest.mark.parametrize("found", UNSUPPORTED)
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: spaces.Dict(a=TWO, b=spaces.Tuple([s]))], ids=["bare", "in"])
def test_an_unsupported_observation_space_is_refused_by_name(found, wrap):
    message = message_of(lambda: check_spaces("mine", wrap(UNSUPPORTED[found]), TWO))
    for word in ("'mine'", f"this one's is {found}", "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple"):
        assert word in message


@pytest.mark.parametrize(
    "action", [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Tuple([TWO]), None]
)
def test_actions_that_are_not_discrete_are_refused(action):
    message = message_of(lambda: check_spaces("mine", spaces.Box(-1, 1, (2,)), action))
    for word in ("'mine'", "a Discrete action space", f"this one's is {action}"):
        assert word in message


@any_values
def test_text_in_an_observation_is_left_out_wherever_it_stands(space, seed):
    (value,) = samples(space, seed, 1)
    mission = spaces.Text(9)
    told = spaces.Dict(a=mission, b=spaces.Tuple([space, mission]))
    checked = check_spaces("mine", told, TWO)
    assert checked.observation_size == size(space)
    assert parts_of(told) == parts_of(space)
    assert texts_in(told) == ["['a']", "['b'][1]"]
    again = spaces_from_json(json.loads(json.dumps(checked.to_json()))).observation
    for own in (told, again):
        np.testing.assert_array_equal(flatten(own, {"a": "go", "b": (value, "")}), flatten(space, value))
        with pytest.raises(FormError, match=r"\['a'\]"):
            flatten(own, {"a": 3, "b": (value, "go")})


def test_text_alone_is_refused_by_name():
    for word in ("'mine'", "this one's is Text", "MultiBinary"):
        assert word in message_of(lambda: check_spaces("mine", spaces.Text(5), TWO))


def test_a_space_of_no_numbers_is_refused():
    assert "1 to 1000000 numbers" in message_of(lambda: check_spaces("mine", spaces.Box(-1, 1, (0,)), TWO))


@pytest.mark.parametrize(
    "part",
    [spaces.Dict({}), spaces.Tuple([]), spaces.Dict({1: TWO})],
    ids=["empty Dict", "empty Tuple", "a number as key"],
)
def test_a_part_that_no_description_can_hold_is_refused(part):
    message = message_of(lambda: check_spaces("mine", spaces.Tuple([TWO, part]), TWO))
    assert f"this one's is {part}" in message


def in_a_process_of_its_own(name, folder):
    return run_mac("train", f"hosted_environments:{name}", "--out", folder / "refused", cwd=folder, env=BESIDE_TESTS)


@pytest.mark.parametrize(
    ("name", "words"),
    [("make_graph", ["Graph", "MultiBinary, and Dict and Tuple"]), ("make_box_action", ["Box", "Discrete"])],
)
def test_the_command_line_refuses_spaces_in_one_line_and_writes_nothing(folder, name, words):
    assert_refused(in_a_process_of_its_own(name, folder), 2, name, *words)
    assert not (folder / "refused").exists()


DESCRIPTIONS = [
    None, {}, [], {"observation": {"kind": "Box"}}, {"observation": {"kind": "Text"}, "action": {"kind": "Discrete"}},
]  # fmt: skip


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_description_that_is_none_is_refused_in_one_line(description):
    assert "description" in message_of(lambda: spaces_from_json(description))


# --- every kind of space trains --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_of(folder):
    """Runs of `hosted.make(what)`, each trained once."""
    return functools.cache(lambda what: tiny_run(folder, hosted.make, env_kwargs={"what": what}, episodes=6))


@pytest.mark.parametrize("kind", hosted.KINDS)
def test_every_kind_of_space_trains_an_agent_that_takes_what_its_environments_show(run_of, kind, tmp_path):
    run = run_of(kind)
    assert run.finished
    agent = run.agent(1)
    agent.save(tmp_path / "agent.safetensors")
    vector = SyncVectorEnv([functools.partial(hosted.Sampler, kind)] * 3)
    batch, _ = vector.reset(seed=0)
    policy = agent.action_probabilities(batch)
    assert policy.shape == (3, 2)
    assert agent.predict(batch)[0].shape == (3,)
    single = [agent.action_probabilities(one) for one in iterate(vector.observation_space, batch)]
    # numbers below the smallest normal one have fewer digits than that, and bytes as they are make such probabilities
    np.testing.assert_allclose(single, policy, rtol=1e-5, atol=np.finfo(np.float32).tiny)
    assert np.ptp(policy[:, 0]) > 0  # it looks at what it is shown
    for again in (Agent.load(tmp_path / "agent.safetensors"), Run.load(run.path).agent(1)):
        np.testing.assert_array_equal(again.action_probabilities(batch), policy)
        vector.step(again.predict(batch)[0])
    vector.close()


def test_an_observation_of_another_space_is_refused_by_an_agent_in_one_line(run_of):
    agent = run_of("dict").agent()
    message = message_of(lambda: agent.predict({"place": np.zeros((2, 2)), "choice": 7}))
    for word in ("observation", "['choice']", "2 choices"):
        assert word in message


def test_actions_begin_where_the_environment_says(folder):
    run = tiny_run(folder, hosted.make, env_kwargs={"what": "box", "first_action": 5})
    returns = np.asarray(run.returns)
    assert np.all(returns >= 5 * run.lengths)  # the reward is the action
    assert np.all(returns <= 6 * run.lengths)
    assert set(np.asarray(arrays_of(run)["state/replay/rows/action"]).ravel()) == {0, 1}
    agent = run.agent()
    observation = np.zeros((100, hosted.SIZE), np.float32)
    assert set(agent.predict(observation)[0]) == {5, 6}
    assert agent.predict(observation[0], deterministic=True)[0] in (5, 6)


# --- environments that reset themselves ------------------------------------------------------------------------------

FORMS = ["plain", "wrapper", "NEXT_STEP", "SAME_STEP", "DISABLED"]


@pytest.mark.parametrize("form", FORMS[1:])
def test_resetting_by_itself_changes_nothing(run_of, form):
    assert run_of(form).digest == run_of("plain").digest


@pytest.mark.parametrize("form", ["plain", "SAME_STEP"])
def test_the_last_observation_of_an_episode_is_its_own_and_counts_if_it_was_cut_off(run_of, form):
    arrays = arrays_of(run_of(form))
    for trial, steps in enumerate(run_of(form).lengths.sum(axis=1)):
        rows = {
            name: arrays[f"state/replay/rows/{name}"][trial, :steps]
            for name in ("observation", "next_observation", "bootstrap")
        }
        time, length, truncates, episode = rows["observation"].T[:4]
        assert set(truncates) == {0, 1}
        np.testing.assert_array_equal(rows["next_observation"][:, 0], time + 1)
        np.testing.assert_array_equal(rows["next_observation"][:, 3], episode)
        np.testing.assert_array_equal(rows["bootstrap"] > 0, (time + 1 < length) | (truncates == 1))


def test_a_vector_of_two_environments_is_refused(tmp_path):
    message = message_of(lambda: train(hosted.make_two_enders, out=tmp_path / "run"))
    for word in ("make_two_enders", "vector environment of 2", "one environment"):
        assert word in message
    assert not (tmp_path / "run").exists()


# --- ways in ---------------------------------------------------------------------------------------------------------


def test_the_command_line_trains_what_a_module_registers_beyond_its_registered_limit(folder):
    words = ("--env-kwargs", "reward=2.5", "--max-episode-steps", "8", "--out", folder / "from_words")
    outcome = run_mac("train", "hosted_environments:Tiny-v0", *words, *SHORT_WORDS, cwd=folder, env=BESIDE_TESTS)
    assert outcome.code == 0, outcome
    run = Run.load(folder / "from_words")
    np.testing.assert_array_equal(run.returns, [[20, 20]])
    assert run.experiment.to_json()["environment_kwargs"] == {"reward": 2.5}


@pytest.mark.parametrize(("given", "length"), [(None, 5), (8, 8), (3, 3)])
def test_a_registered_time_limit_holds_unless_another_is_given(given, length):
    spec = find_environment("hosted_environments:Tiny-v0", max_episode_steps=given)
    assert spec.max_episode_steps == length
    environment = spec.build()
    environment.reset(seed=0)
    assert [environment.step(0)[3] for _ in range(length)] == [False] * (length - 1) + [True]


MAKERS = {
    "lambda": lambda: hosted.Tiny(2.0),
    "partial": functools.partial(hosted.Tiny, reward=2.0),
    "class": hosted.Tiny,
}


@pytest.fixture(scope="module")
def run_by(folder):
    kwargs = {"class": {"reward": 2.0}}
    return functools.cache(lambda way: short_run(folder, MAKERS[way], env_kwargs=kwargs.get(way), max_episode_steps=4))


@pytest.mark.parametrize("way", MAKERS)
def test_any_callable_makes_environments(run_by, way):
    np.testing.assert_array_equal(run_by(way).returns, [[8, 8]])


@pytest.mark.parametrize("way", ["lambda", "partial"])
def test_what_has_no_name_resumes_only_when_it_is_given_again(run_by, way, monkeypatch):
    run = run_by(way)
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})  # as in another process
    for checkpoint in run.path.glob("checkpoint-*"):
        checkpoint.unlink()
    assert "resume(path, environment)" in message_of(lambda: resume(run.path))
    assert resume(run.path, MAKERS[way], workers=1).digest == run.digest


def test_a_dictionary_in_another_order_is_another_space(run_of):
    run = run_of("dict")
    observation, action, _ = run.manifest.spaces
    turned = Spaces(spaces.Dict(list(reversed(observation.spaces.items()))), action)
    assert environment_of(run.experiment, run.manifest.spaces, hosted.make).name == "hosted_environments:make"
    assert "spaces" in message_of(lambda: environment_of(run.experiment, turned, hosted.make))


def test_what_has_a_name_resumes_by_it_if_its_user_says_so(run_by, monkeypatch):
    run = run_by("class")
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})  # as in another process
    for checkpoint in run.path.glob("checkpoint-*"):
        checkpoint.unlink()
    name = run.experiment.environment
    assert f"--env {name}" in message_of(lambda: resume(run.path))  # what a file names is not run by itself
    assert resume(run.path, name, workers=1).digest == run.digest


def test_a_callable_object_is_not_taken_for_its_class():
    spec = find_environment(hosted.MakesTiny())
    assert spec.spaces.observation_size == hosted.SIZE
    assert "resume(path, environment)" in message_of(lambda: find_environment(spec.name))


REFUSED_NAMES = {
    "CartPole-v9": ["CartPole-v9", "did you mean CartPole-v"],
    "no_such_module:make": ["no_such_module", "module"],
    "hosted_environments.no:make": ["hosted_environments.no", "cannot be imported"],
    "hosted_environments:make_grph": ["hosted_environments", "no callable 'make_grph'"],
    "hosted_environments:make_nothing": ["NoneType", "gymnasium.Env"],
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_name_that_leads_nowhere_is_refused_in_one_line(tmp_path, name):
    assert_refused(mac("train", name, "--out", tmp_path / "run"), 2, *REFUSED_NAMES[name])
    assert not (tmp_path / "run").exists()


def test_a_keyword_that_the_environment_does_not_take_is_refused(tmp_path):
    words = ("--env-kwargs", "colour=red", "--out", tmp_path / "run")
    assert_refused(mac("train", "hosted_environments:Tiny", *words), 2, "hosted_environments:Tiny", "colour")


def test_the_compiled_engine_refuses_what_is_not_a_jax_program():
    message = message_of(lambda: find_environment(hosted.Tiny, engine="compiled"))
    for word in ("engine", "hosted", "hosted_environments:Tiny", "CartPole-v0"):
        assert word in message


def test_an_environment_that_is_made_already_is_refused():
    message = message_of(lambda: find_environment(hosted.Tiny()))
    for word in ("Tiny object", "a callable that makes a new environment each time"):
        assert word in message

"""Agents: what is saved is what is loaded, and it plays on NumPy alone, in the form that other tools expect."""

import itertools
import json
import warnings

import gymnasium
import numpy as np
import pytest
from scipy import stats

from helpers import EPISODIC, FORGED_SPACES, content_of, forge_arrays, message_of, run_python
from mean_actor_critic.environments.spaces import Spaces, fitted
from mean_actor_critic.errors import DiskError, InputError
from mean_actor_critic.learning.networks import Layer
from mean_actor_critic.runs.agent import Agent, Networks
from mean_actor_critic.runs.expected import blank_networks, networks_from_arrays
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import Budget, make_experiment
from mean_actor_critic.trees import named

FOUR = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
OBSERVATIONS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


@pytest.fixture
def agent(files) -> Agent:
    return Agent.load(files.agent)


def random_agent(algorithm: str, hidden: tuple[int, ...] = (8,), actions: int = 3) -> Agent:
    """An agent that nobody trained."""
    random = np.random.default_rng(0)
    sizes = (4, *hidden, actions)

    def network() -> tuple[Layer, ...]:
        return tuple(
            Layer(random.normal(size=(inputs, outputs)).astype(np.float32), random.normal(size=outputs).astype("f4"))
            for inputs, outputs in itertools.pairwise(sizes)
        )

    experiment = make_experiment("CartPole-v0", algorithm, 2, 3, 0, {"hidden": hidden, "activation": "tanh"})
    spaces = Spaces(FOUR, gymnasium.spaces.Discrete(actions))
    return Agent(experiment, spaces, 1, Networks(network(), network() if experiment.setup.has_critic else ()))


# --- saving and loading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5, 6)])
@pytest.mark.parametrize("algorithm", EPISODIC)
def test_a_loaded_agent_is_the_one_that_was_saved(tmp_path, algorithm, hidden):
    agent = random_agent(algorithm, hidden)
    agent.save(tmp_path / "agent.safetensors")
    loaded = Agent.load(tmp_path / "agent.safetensors")
    assert (loaded.experiment, loaded.trial) == (agent.experiment, agent.trial)
    assert loaded.spaces.to_json() == agent.spaces.to_json()
    for mine, theirs in zip(loaded.policy + loaded.critic, agent.policy + agent.critic, strict=True):
        assert np.array_equal(mine.weight, theirs.weight)
        assert np.array_equal(mine.bias, theirs.bias)
    assert np.array_equal(loaded.action_probabilities(OBSERVATIONS), agent.action_probabilities(OBSERVATIONS))


def test_an_exported_agent_is_that_of_the_run(files, agent):
    original = Run.load(files.run).agent(1)
    other = Run.load(files.run).agent(0)
    mine = agent.action_probabilities(OBSERVATIONS)
    assert np.array_equal(mine, original.action_probabilities(OBSERVATIONS))
    assert not np.array_equal(mine, other.action_probabilities(OBSERVATIONS))


def test_numbers_for_each_trial_survive_the_file(tmp_path):
    agent = random_agent("mac")
    experiment = make_experiment("CartPole-v0", "mac", 2, 3, 0, {"hidden": (8,), "actor_lr": [0.1, 0.2]})
    Agent(experiment, agent.spaces, 0, agent.networks).save(tmp_path / "agent.safetensors")
    assert Agent.load(tmp_path / "agent.safetensors").experiment == experiment


@pytest.mark.parametrize("name", ["agent", "agent.pkl", "agent.safetensors.gz", "safetensors"])
def test_an_agent_is_saved_only_under_the_name_of_its_kind(agent, tmp_path, name):
    with pytest.raises(InputError, match=r"ends in \.safetensors"):
        agent.save(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_an_agent_that_cannot_be_written_is_one_line(agent, tmp_path):
    with pytest.raises(DiskError, match="could not write: No such file or directory"):
        agent.save(tmp_path / "missing" / "agent.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(DiskError, match="could not write: Is a directory"):
        agent.save(tmp_path / "folder.safetensors")
    assert not list(tmp_path.glob(".*"))


# --- forgeries with a right checksum ---------------------------------------------------------------------------------


def _zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


FORGED_ARRAYS = {
    "a layer of another width": {"policy/0/weight": _zeros(4, 9), "policy/0/bias": _zeros(9)},
    "layers that do not join": {"policy/1/weight": _zeros(9, 2)},
    "a bias of another width": {"policy/1/bias": _zeros(3)},
    "a weight that is one number": {"policy/0/weight": _zeros()},
    "a weight that is a vector": {"policy/0/weight": _zeros(4)},
    "a last weight that is one number": {"policy/1/weight": _zeros()},
    "a weight of three dimensions": {"policy/0/weight": _zeros(1, 4, 8)},
    "no actions": {"policy/1/weight": _zeros(8, 0), "policy/1/bias": _zeros(0)},
    "double precision": {"policy/0/weight": _zeros(4, 8, dtype=np.float64)},
    "whole numbers": {"policy/0/bias": _zeros(8, dtype=np.int32)},
    "a layer missing": {"policy/1/weight": None, "policy/1/bias": None},
    "a layer too many": {"policy/2/weight": _zeros(2, 2), "policy/2/bias": _zeros(2)},
    "a foreign array": {"payload": _zeros(1)},
    "no critic": {name: None for i in (0, 1) for name in (f"critic/{i}/weight", f"critic/{i}/bias")},
    "a critic of other observations": {"critic/0/weight": _zeros(7, 8)},
    "a critic of other actions": {"critic/1/weight": _zeros(8, 5), "critic/1/bias": _zeros(5)},
    "a normalizer that the settings do not have": {"normalizer/mean": _zeros(4), "normalizer/variance": _zeros(4)},
}


def _experiment(**changes) -> str:
    document = make_experiment("CartPole-v0", "mac", 2, 3, 0, {"hidden": (8,)}).to_json()
    return json.dumps(document | changes)


def _spaces(observation: int = 4, actions: int = 2) -> str:
    box = gymnasium.spaces.Box(-1, 1, (observation,))
    return json.dumps(Spaces(box, gymnasium.spaces.Discrete(actions)).to_json())


NORMALIZED = {"experiment": _experiment(settings={"hidden": [8], "normalize_observations": True})}
FORGED_NORMALIZERS = {
    "no variance": {"normalizer/mean": _zeros(4)},
    "a mean of other observations": {"normalizer/mean": _zeros(5), "normalizer/variance": _zeros(4)},
    "a variance that is one number": {"normalizer/mean": _zeros(4), "normalizer/variance": _zeros()},
    "double precision": {"normalizer/mean": _zeros(4), "normalizer/variance": _zeros(4, dtype=np.float64)},
    "how often as well": {name: _zeros(4) for name in ("normalizer/mean", "normalizer/variance", "normalizer/count")},
}
FORGED_WORDS = {
    "no trial": {"trial": None},
    "a trial in words": {"trial": "one"},
    "a negative trial": {"trial": "-1"},
    "a trial that the experiment does not have": {"trial": "2"},
    "no experiment": {"experiment": None},
    "an experiment that is not JSON": {"experiment": "CartPole"},
    "an experiment that is null": {"experiment": "null"},
    "an experiment nested deeply": {"experiment": "[" * 100_000},
    "an algorithm without that critic": {"experiment": _experiment(algorithm="reinforce", settings={"hidden": [8]})},
    "an algorithm that is a list": {"experiment": _experiment(algorithm=[])},
    "layers of another width": {"experiment": _experiment(settings={"hidden": [9]})},
    "an activation that does not exist": {"experiment": _experiment(settings={"hidden": [8], "activation": "gelu"})},
    "another format": {"format": "mean_actor_critic agent 1"},
    "a normalizer that is not there": NORMALIZED,
    "an engine that is unknown": {"experiment": _experiment(engine="warp")},
    "a first trial below zero": {"experiment": _experiment(first_trial=-1)},
    "keyword arguments that are a list": {"experiment": _experiment(environment_kwargs=[["gravity", 1]])},
    "no spaces": {"spaces": None},
    "spaces that are not JSON": {"spaces": "Box"},
    "spaces nested without end": {"spaces": '{"observation":' * 100_000},
    **{name: {"spaces": json.dumps(spaces)} for name, spaces in FORGED_SPACES.items()},
    "observations of another size": {"spaces": _spaces(observation=5)},
    "another number of actions": {"spaces": _spaces(actions=3)},
}


@pytest.mark.parametrize("arrays", FORGED_ARRAYS.values(), ids=FORGED_ARRAYS)
def test_networks_that_do_not_fit_are_refused_despite_their_checksum(files, arrays):
    forge_arrays(files.agent, arrays)
    assert str(files.agent) in message_of(lambda: Agent.load(files.agent))


@pytest.mark.parametrize("words", FORGED_WORDS.values(), ids=FORGED_WORDS)
def test_words_that_make_no_sense_are_refused_despite_their_checksum(files, words):
    forge_arrays(files.agent, words=words)
    assert str(files.agent) in message_of(lambda: Agent.load(files.agent))


@pytest.mark.parametrize("arrays", FORGED_NORMALIZERS.values(), ids=FORGED_NORMALIZERS)
def test_a_normalizer_that_does_not_fit_is_refused_despite_its_checksum(files, arrays):
    forge_arrays(files.agent, arrays, NORMALIZED)
    assert str(files.agent) in message_of(lambda: Agent.load(files.agent))


def test_a_normalizer_that_fits_is_accepted(files):
    forge_arrays(files.agent, {"normalizer/mean": _zeros(4), "normalizer/variance": _zeros(4) + 1}, NORMALIZED)
    assert len(Agent.load(files.agent).networks.normalizer) == 2


def choosing_agent(deviation):
    """One that sees a choice among many, and measures the observation by `deviation`."""
    spaces = Spaces(gymnasium.spaces.Discrete(500), gymnasium.spaces.Discrete(2))
    experiment = make_experiment("Taxi-v3", "mac", 1, Budget("steps", 64), 0, {"hidden": (4,)}, learner="rollout")
    experiment = fitted(experiment, spaces)
    shapes = {name: x.shape for name, x in named(blank_networks(experiment, spaces)).items()}
    arrays = {name: np.full(shape, deviation * ("deviation" in name), "f4") for name, shape in shapes.items()}
    return Agent(experiment, spaces, 0, networks_from_arrays(experiment, spaces, arrays))


@pytest.mark.parametrize("deviation", [1, 1e-3, 0, -1, np.nan])
def test_choices_that_are_measured_in_other_units_are_refused(tmp_path, deviation):
    """By them the network looks up its weights: another number leads beyond."""
    choosing_agent(deviation).save(tmp_path / "agent.safetensors")
    if deviation == 1:
        assert Agent.load(tmp_path / "agent.safetensors").predict(499)[0] in (0, 1)
    else:
        assert "in units of 1" in message_of(lambda: Agent.load(tmp_path / "agent.safetensors"))


def test_an_agent_file_written_again_unchanged_is_accepted(files):
    before = content_of(files, "agent")
    forge_arrays(files.agent)
    assert content_of(files, "agent") == before


# --- acting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["mac", "reinforce"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_one_observation_gives_one_action_and_a_batch_gives_as_many(algorithm, deterministic):
    agent = random_agent(algorithm)
    action, state = agent.predict(OBSERVATIONS[0], deterministic=deterministic)
    assert state is None
    assert isinstance(action, np.ndarray)
    assert action.shape == ()
    assert np.issubdtype(action.dtype, np.integer)
    actions, state = agent.predict(OBSERVATIONS, deterministic=deterministic)
    assert state is None
    assert actions.shape == (7,)
    assert np.issubdtype(actions.dtype, np.integer)
    assert set(actions) <= {0, 1, 2}


def test_a_batch_is_played_as_its_observations_one_by_one():
    agent = random_agent("mac")
    one_by_one = [agent.action_probabilities(observation) for observation in OBSERVATIONS]
    np.testing.assert_allclose(agent.action_probabilities(OBSERVATIONS), one_by_one, rtol=1e-6)
    agent.seed(5)
    together, _ = agent.predict(OBSERVATIONS)
    agent.seed(5)
    assert np.array_equal(together, [agent.predict(observation)[0] for observation in OBSERVATIONS])


def test_the_deterministic_action_is_the_most_probable():
    agent = random_agent("mac")
    actions, _ = agent.predict(OBSERVATIONS, deterministic=True)
    assert np.array_equal(actions, np.argmax(agent.action_probabilities(OBSERVATIONS), axis=-1))
    assert len(set(actions)) > 1


def test_probabilities_are_those_of_the_network_written_out():
    agent = random_agent("mac")
    hidden, last = agent.policy
    logits = np.tanh(OBSERVATIONS @ hidden.weight + hidden.bias) @ last.weight + last.bias
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    probabilities = agent.action_probabilities(OBSERVATIONS)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


def test_actions_are_sampled_as_often_as_they_are_probable():
    agent = random_agent("mac")
    draws = 20_000
    probabilities = agent.action_probabilities(OBSERVATIONS[0])
    actions, _ = agent.predict(np.tile(OBSERVATIONS[0], (draws, 1)))
    for action, probability in enumerate(probabilities):
        low, high = stats.binom.interval(1 - 1e-6, draws, probability)
        assert low <= np.sum(actions == action) <= high
    assert probabilities.min() > 0.01


def test_the_same_seed_draws_the_same_actions_and_another_seed_others(files):
    observations = np.zeros((200, 4))
    first, again, other = (Agent.load(files.agent, seed=seed).predict(observations)[0] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_seed_that_cannot_be_used_is_not_blamed_on_the_file(files):
    with pytest.raises(InputError, match="seed"):
        Agent.load(files.agent, seed=-1)


@pytest.mark.parametrize("shape", [(), (3,), (5,), (4, 3), (2, 3, 5), (0,)])
def test_observations_of_another_shape_are_refused_with_both_shapes(agent, shape):
    with pytest.raises(InputError) as caught:
        agent.predict(np.zeros(shape))
    assert f"observation: 'an array of shape {shape}'" in str(caught.value)
    assert f"it has shape {shape}, not (4,)" in str(caught.value)


@pytest.mark.parametrize("observation", [None, "north", {}, [0, 0, 0, "north"], [0, 0, [0, 0], 0]], ids=repr)
def test_what_is_no_observation_is_refused_in_one_line(agent, observation):
    assert "observation: " in message_of(lambda: agent.predict(observation))


def test_huge_observations_still_give_probabilities(agent):
    probabilities = agent.action_probabilities(np.full(4, 1e30))
    assert np.all(np.isfinite(probabilities))
    assert np.sum(probabilities) == pytest.approx(1)


# --- without JAX, and with others ------------------------------------------------------------------------------------


def test_an_agent_is_loaded_and_plays_without_jax(files):
    script = """
import sys
import mean_actor_critic
agent = mean_actor_critic.Agent.load(sys.argv[1])
agent.predict([0.0, 0.0, 0.0, 0.0])
agent.save(sys.argv[1])
print(sorted({"jax", "jaxlib", "optax", "torch"} & set(sys.modules)))
"""
    outcome = run_python(script, files.agent)
    assert (outcome.out, outcome.err) == ("[]\n", "")


def play_by_hand(agent: Agent, episodes: int, seed: int) -> list[float]:
    """Returns of deterministic episodes; only the first is seeded, as vectorised environments do."""
    environment = gymnasium.make("CartPole-v1")
    returns = []
    for number in range(episodes):
        observation, _ = environment.reset(seed=None if number else seed)
        total, over = 0.0, False
        while not over:
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = environment.step(int(action))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    environment.close()
    return returns


def test_stable_baselines_evaluates_an_agent_as_playing_by_hand_does(agent):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages deprecate is not ours
        pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
        from stable_baselines3.common.evaluation import evaluate_policy
        from stable_baselines3.common.monitor import Monitor
        from stable_baselines3.common.vec_env import DummyVecEnv

    environment = DummyVecEnv([lambda: Monitor(gymnasium.make("CartPole-v1"))])
    environment.seed(11)
    mean, _ = evaluate_policy(agent, environment, n_eval_episodes=6, deterministic=True)
    by_hand = play_by_hand(agent, 6, seed=11)
    assert mean == np.mean(by_hand)
    assert len(set(by_hand)) > 1


def test_stable_baselines_wraps_a_bare_environment_for_an_agent(agent):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
        from stable_baselines3.common.evaluation import evaluate_policy
        from stable_baselines3.common.monitor import Monitor

    returns, lengths = evaluate_policy(
        agent, Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3, return_episode_rewards=True
    )
    assert returns == lengths
    assert len(returns) == 3

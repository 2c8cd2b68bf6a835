"""Which environment a run or agent is about: the one it began with, or one clear line."""

import numpy as np
import pytest
from gymnasium import spaces

from helpers import message_of
from mean_actor_critic.environments import catalogue
from mean_actor_critic.environments.catalogue import COMPILED, environment_of, find_environment
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.spaces import Spaces, check_spaces, flatten, spaces_from_json
from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import make_experiment
from probes import ConstantReward

BOX, TWO = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)


def experiment_on(environment):
    return make_experiment(environment, "mac", 1, 1, 0, {})


def test_a_compiled_environment_is_found_by_its_name():
    spec = environment_of(experiment_on("CartPole-v1"), COMPILED["CartPole-v1"].spaces)
    assert (spec.name, spec.engine, spec.max_episode_steps) == ("CartPole-v1", "compiled", 200)  # the experiment's own


@pytest.mark.parametrize("known", [Spaces(spaces.Box(-1, 1, (5,)), TWO), Spaces(BOX, spaces.Discrete(3))])
def test_spaces_that_are_not_those_of_training_are_refused(known):
    message = message_of(lambda: environment_of(experiment_on("CartPole-v0"), known))
    assert "'CartPole-v0'" in message
    assert "the spaces that training began with" in message


def test_another_environment_than_that_of_training_is_refused():
    experiment = experiment_on("CartPole-v0")
    message = message_of(lambda: environment_of(experiment, COMPILED["CartPole-v0"].spaces, "CartPole-v1"))
    assert "'CartPole-v1'" in message
    assert "the one that training began with, CartPole-v0" in message


def test_a_functional_environment_must_be_given_again(monkeypatch):
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})  # as in a process that has not trained on one
    probe = ConstantReward()
    spec = find_environment(probe, max_episode_steps=5)
    experiment = experiment_on("ConstantReward")
    assert "one that is given" in message_of(lambda: environment_of(experiment, spec.spaces))
    assert environment_of(experiment, spec.spaces, probe).build() is probe


NAMED_BY_NUMBERS = spaces.Dict({0: TWO, 1: TWO})
EMPTY_WITHIN = spaces.Dict(empty=spaces.Dict({}), full=TWO)


@pytest.mark.parametrize("space", [NAMED_BY_NUMBERS, EMPTY_WITHIN, spaces.Tuple([spaces.Tuple([]), TWO])], ids=str)
def test_an_unusual_space_is_flattened_and_described_or_refused_at_once(space):
    """What passes the check must not fail later, in a worker."""
    try:
        found = check_spaces("mine", space, TWO)
    except InputError:
        return
    described = spaces_from_json(found.to_json())
    assert flatten(described.observation, space.sample()).shape == (found.observation_size,)


@pytest.mark.parametrize("workers", [0, -1, 1.5, 1025, "2", True])
def test_workers_that_cannot_be_counted_are_refused(workers):
    assert f"workers: {workers!r} cannot be used" in message_of(WorkerLimits(workers=workers).checked)


@pytest.mark.parametrize("seconds", [0, -1, np.nan, np.inf, "60"])
def test_seconds_that_cannot_be_waited_are_refused(seconds):
    assert f"step_seconds: {seconds!r} cannot be used" in message_of(WorkerLimits(step_seconds=seconds).checked)


def test_numpy_s_number_of_workers_is_as_good_as_python_s():
    assert WorkerLimits(workers=np.int64(3)).checked().workers_for(10) == 3

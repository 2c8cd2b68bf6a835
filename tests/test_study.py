"""Groups, blocks and padding: how trials are packed must not show in what they learn."""

import numpy as np
import pytest

from mean_actor_critic.engines import compiled, devices
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.spec.experiment import make_experiment

devices.prepare()
SMALL = {"max_episode_steps": 50, "hidden": (8,), "minibatches": 2, "batch_size": 4, "replay_capacity": 100}


def finished_study(trials, episodes=12, width=2, seed=3, interrupt_after=None):
    experiment = make_experiment("CartPole-v0", "mac", trials, episodes, seed, SMALL)
    environment = find_environment("CartPole-v0")
    study = CompiledStudy(experiment, environment, width, None)
    segments = 0
    while not study.finished:
        study.advance()
        segments += 1
        if segments == interrupt_after:
            study = CompiledStudy(experiment, environment, width, study.arrays())
    return study


def test_a_trial_is_the_same_in_a_small_and_in_a_large_study():
    small, large = finished_study(trials=3).arrays(), finished_study(trials=11).arrays()
    for name, array in small.items():
        assert np.array_equal(array, large[name][:3]), name
    assert len(np.unique(large["returns"].sum(axis=1))) > 5  # the trials differ from each other


def test_a_study_goes_on_from_its_arrays_in_the_middle_of_a_round():
    whole = finished_study(trials=7).arrays()
    for segments in (1, 2, 3):  # blocks are then at different episodes
        resumed = finished_study(trials=7, interrupt_after=segments).arrays()
        for name, array in whole.items():
            assert np.array_equal(array, resumed[name]), name


def test_seeds_make_different_studies():
    first, second = finished_study(trials=2, seed=1).arrays(), finished_study(trials=2, seed=2).arrays()
    assert not np.array_equal(first["returns"], second["returns"])
    assert not np.array_equal(first["state/policy/0/weight"], second["state/policy/0/weight"])


@pytest.mark.parametrize("trials", [1, 2, 5, 10, 64, 100, 128, 129, 1000, 1037])
@pytest.mark.parametrize("available", [1, 2, 7])
def test_the_width_packs_trials_tightly(trials, available):
    setup = make_experiment("CartPole-v0", "mac", 1, 1, 0, {}).setup
    width = compiled.choose_width(setup, trials, available)
    groups = -(-trials // width)
    blocks = -(-groups // available)
    assert 1 <= width <= compiled.WIDEST
    assert (
        blocks * available * width < trials + blocks * available
    )  # less than one lane of padding per device and block


def test_big_networks_get_fewer_lanes():
    wide = make_experiment("CartPole-v0", "mac", 1, 1, 0, {"hidden": (300, 300), "batch_size": 64}).setup
    assert compiled.choose_width(wide, 1000, 2) < 16

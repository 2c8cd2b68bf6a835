"""What readers are given is small against what it costs to read, and means what it meant when it was written."""

import json

import pytest
from gymnasium import spaces

from helpers import copy_of_tiny_run, message_of
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.runs import store
from mean_actor_critic.studies.sweep import Sweep, create_sweep, plan_from_json

# --- the order of names ----------------------------------------------------------------------------------------------


def reversed_in(file, *path):
    """Write a document again with the names of one of its objects in the opposite order."""
    document = json.loads(file.read_bytes())
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = dict(reversed(place[path[-1]].items()))
    file.write_text(json.dumps(document))


@pytest.fixture
def with_two_observations(tmp_path, files):
    """A run folder on an environment whose observations have two parts of the same form."""
    experiment = store.read_manifest(files.run).experiment
    one = spaces.Box(0, 1, (2,))
    seen = Spaces(spaces.Dict([("speed", one), ("place", one)]), spaces.Discrete(2))
    store.create_run(tmp_path / "two", experiment, seen, 1, {})
    return tmp_path / "two"


def test_a_space_in_another_order_is_another_file(with_two_observations):
    file = with_two_observations / "manifest.json"
    assert list(store.read_manifest(with_two_observations).spaces.observation) == ["speed", "place"]
    reversed_in(file, "spaces", "observation", "parts")
    assert "checksum" in message_of(lambda: store.read_manifest(with_two_observations))


def test_a_grid_in_another_order_is_another_search(tmp_path):
    grid = {"choices": {"hidden": [[], [8]], "actor_lr": [0.1, 0.01]}, "fixed": {}}
    rungs = [{"trials": 1, "episodes": 2}]
    plan = {"environment": "CartPole-v0", "algorithms": ["mac"], "grid": grid, "rungs": rungs}
    create_sweep(tmp_path / "s", plan_from_json({**plan, "keep": 1.0, "rule": "area", "seed": 10**6}), {})
    Sweep.load(tmp_path / "s")
    reversed_in(tmp_path / "s" / "sweep.json", "plan", "grid", "choices")
    assert "checksum" in message_of(lambda: Sweep.load(tmp_path / "s"))


def test_files_that_were_sealed_in_the_order_of_names_are_still_read(tmp_path):
    files = copy_of_tiny_run(tmp_path)
    document = json.loads(files.manifest.read_bytes())
    del document["sha256"]
    files.manifest.write_text(json.dumps({**document, "sha256": store.digest_without_order(document)}))
    assert store.read_manifest(files.run).experiment.environment == "CartPole-v0"

"""Files with a right checksum and wrong content: refused in one line, like damaged ones."""

import contextlib
import sys

import numpy as np
import pytest

from helpers import (
    FORGED_SPACES,
    content_of,
    copy_of_tiny_run,
    forge_arrays,
    forge_manifest,
    message_of,
    only_begun,
    run_python,
)
from mean_actor_critic.runs.run import Run

# --- manifests with a right checksum ---------------------------------------------------------------------------------


def _top(name, value):
    return lambda document: document.update({name: value})


def _experiment(name, value):
    return lambda document: document["experiment"].update({name: value})


def _setting(name, value):
    return lambda document: document["experiment"]["settings"].update({name: value})


def _without(name):
    return lambda document: document.pop(name)


def _nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


FORGED_MANIFESTS = {
    "an extra field": _top("extra", 1),
    "an extra field of the experiment": _experiment("extra", 1),
    "a setting that does not exist": _setting("extra", 1),
    "a setting that the algorithm does not read": _setting("baseline_decay", 0.5),
    "no experiment": _without("experiment"),
    "no width": _without("width"),
    "no versions": _without("versions"),
    "another format": _top("format", "mean_actor_critic run 1"),
    "a format that is a list": _top("format", []),
    "width zero": _top("width", 0),
    "a width that is true": _top("width", True),
    "a width in words": _top("width", "1"),
    "a width that no choice of ours gives": _top("width", 10**12),
    "versions that are a list": _top("versions", []),
    "versions that are not words": _top("versions", {"jax": [1]}),
    "an experiment that is a list": _top("experiment", []),
    "an environment that is a number": _experiment("environment", 1),
    "an algorithm that is unknown": _experiment("algorithm", "sarsa"),
    "an algorithm that is a list": _experiment("algorithm", ["mac"]),
    "an algorithm that is an object": _experiment("algorithm", {}),
    "no trials": _experiment("trials", 0),
    "half a trial": _experiment("trials", 0.5),
    "trials that are true": _experiment("trials", True),
    "too many episodes": _experiment("episodes", 10**12),
    "a negative seed": _experiment("seed", -1),
    "settings that are a list": _experiment("settings", []),
    "a width of layers out of limits": _setting("hidden", [10**9]),
    "layers in words": _setting("hidden", "8"),
    "nested layers": _setting("hidden", [[8]]),
    "deeply nested layers": _setting("hidden", _nested(500)),
    "an activation that is an object": _setting("activation", {}),
    "an optimizer that is unknown": _setting("optimizer", "lion"),
    "a discount above one": _setting("discount", 1.5),
    "a discount that is not a number": _setting("discount", float("nan")),
    "a discount without end": _setting("discount", float("inf")),
    "a discount for another number of trials": _setting("discount", [0.9, 0.9, 0.9]),
    "a learning rate beyond any float": _setting("actor_lr", 10**400),
    "learning rates beyond any float": _setting("actor_lr", [10**400, 1]),
    "learning rates that are not numbers": _setting("actor_lr", [float("nan"), 1]),
    "a learning rate that is true": _setting("actor_lr", True),
    "no batch": _setting("batch_size", 0),
    "a switch that is a number": _setting("normalize_observations", 1),
    "an engine that is unknown": _experiment("engine", "warp"),
    "an engine that is a list": _experiment("engine", ["compiled"]),
    "no engine": lambda document: document["experiment"].pop("engine"),
    "a first trial below zero": _experiment("first_trial", -1),
    "a first trial that is true": _experiment("first_trial", True),
    "a first trial beyond any integer": _experiment("first_trial", 10**30),
    "no first trial": lambda document: document["experiment"].pop("first_trial"),
    "keyword arguments that are a list": _experiment("environment_kwargs", [["gravity", 1]]),
    "keyword arguments that are an empty list": _experiment("environment_kwargs", []),
    "keyword arguments that are null": _experiment("environment_kwargs", None),
    "keyword arguments that are a word": _experiment("environment_kwargs", "gravity=1"),
    "keyword arguments that are not numbers": _experiment("environment_kwargs", {"gravity": float("nan")}),
    "no keyword arguments": lambda document: document["experiment"].pop("environment_kwargs"),
    "no spaces": _without("spaces"),
    **{name: _top("spaces", spaces) for name, spaces in FORGED_SPACES.items()},
}


@pytest.mark.parametrize("change", FORGED_MANIFESTS.values(), ids=FORGED_MANIFESTS)
def test_a_manifest_that_no_run_could_have_is_refused_despite_its_checksum(files, change):
    forge_manifest(files, change)
    assert str(files.manifest) in message_of(lambda: Run.load(files.run))


@contextlib.contextmanager
def _deep_stack():
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def test_nesting_of_any_depth_is_refused_in_one_line(files):
    whole = files.manifest.read_bytes()
    # what parses JSON, writes it, compares it and shows it each gives up at a depth of its own, all of them below 1000
    for depth in range(500, 1001):
        for change in (_top("spaces", _nested(depth)), _experiment("environment_kwargs", {"nested": _nested(depth)})):
            with _deep_stack():
                forge_manifest(files, change)
            message_of(lambda: Run.load(files.run))
            files.manifest.write_bytes(whole)


@pytest.mark.parametrize("last", [[], [{"kind": "Discrete", "n": -(10**9), "start": 0}]], ids=["", "less than none"])
def test_spaces_of_more_than_fits_into_memory_are_refused_before_they_are_made(files, last):
    large = {"kind": "Box", "shape": [1_000_000], "dtype": "float64"}
    observation = {"kind": "Tuple", "parts": [large] * 100 + last}
    forge_manifest(files, lambda document: document["spaces"].update(observation=observation))
    script = """
import resource, sys
from mean_actor_critic.errors import MacError
from mean_actor_critic.runs.run import Run
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Run.load(sys.argv[1])
except MacError:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print("refused", "cheaply" if grown < 200_000 else f"for {grown // 1000} MB")
"""
    assert run_python(script, files.run).out == "refused cheaply\n"


def test_a_manifest_written_again_unchanged_is_accepted(files):
    before = content_of(files, "manifest")
    forge_manifest(files, lambda document: None)
    assert content_of(files, "manifest") == before


def test_a_manifest_of_more_than_fits_into_memory_is_refused(files):
    def grow(document):
        document["experiment"].update(trials=100_000, episodes=10_000_000)

    forge_manifest(files, grow)
    only_begun(files)
    script = """
import resource, sys
from mean_actor_critic.errors import MacError
from mean_actor_critic.runs.run import Run
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    Run.load(sys.argv[1])
except MacError:
    print("refused")
"""
    assert run_python(script, files.run).out == "refused\n"


# --- checkpoints with a right checksum -------------------------------------------------------------------------------

F32, I32 = np.float32, np.int32
FORGED_CURVES = {
    "returns missing": {"returns": None},
    "returns of other trials": {"returns": np.zeros((3, 3), F32)},
    "returns that are one number": {"returns": np.zeros((), F32)},
    "returns in double precision": {"returns": np.zeros((2, 3), np.float64)},
    "lengths of other episodes": {"lengths": np.ones((2, 4), I32)},
    "lengths that are not whole": {"lengths": np.ones((2, 3), F32)},
    "divergence missing": {"state/diverged_at": None},
    "divergence of one trial": {"state/diverged_at": np.zeros(1, I32)},
}
FORGED_POLICIES = {
    "a weight of another shape": {"state/policy/0/weight": np.zeros((2, 4, 9), F32)},
    "a weight of too few trials": {"state/policy/0/weight": np.zeros((1, 4, 8), F32)},
    "a weight that is one number": {"state/policy/0/weight": np.zeros((), F32)},
    "a weight that is one number for each trial": {"state/policy/0/weight": np.zeros(2, F32)},
    "a weight in double precision": {"state/policy/0/weight": np.zeros((2, 4, 8), np.float64)},
    "a weight under a foreign name": {"state/policy/0/weight": None, "state/policy/0/mass": np.zeros((2, 4, 8), F32)},
    "a layer too many": {"state/policy/2/weight": np.zeros((2, 2, 2), F32)},
    "a critic missing": {"state/critic/0/weight": None},
}
FORGED_STATES = {
    "a replay of another capacity": {"state/replay/rows/reward": np.zeros((2, 17), F32)},
    "a replay of another type": {"state/replay/cursor/filled": np.zeros(2, F32)},
    "a normalizer that the settings do not have": {"state/normalizer/mean": np.zeros((2, 4), F32)},
    "fewer episodes than the curves have": {"state/episode": np.ones(2, I32)},
}


@pytest.mark.parametrize("arrays", FORGED_CURVES.values(), ids=FORGED_CURVES)
def test_curves_that_do_not_fit_the_manifest_are_refused_despite_their_checksum(files, arrays):
    forge_arrays(files.checkpoint, arrays)
    assert str(files.run) in message_of(lambda: Run.load(files.run))


@pytest.mark.parametrize("arrays", FORGED_POLICIES.values(), ids=FORGED_POLICIES)
def test_a_policy_that_does_not_fit_the_manifest_is_refused_despite_its_checksum(files, arrays):
    forge_arrays(files.checkpoint, arrays)
    assert str(files.run) in message_of(lambda: Run.load(files.run).agent(1))


FORGED = FORGED_CURVES | FORGED_POLICIES | FORGED_STATES
del FORGED["a layer too many"]  # what the learner does not know of, it does not read


@pytest.mark.parametrize("arrays", FORGED.values(), ids=FORGED)
def test_a_state_that_does_not_fit_the_manifest_is_not_resumed(files, arrays):
    from mean_actor_critic.runs.train import resume

    forge_arrays(files.checkpoint, arrays)
    message_of(lambda: resume(files.run))


def test_a_checkpoint_of_another_run_is_refused(files, tmp_path):
    other = copy_of_tiny_run(tmp_path / "other")
    forge_manifest(other, _top("created", "2000-01-01T00:00:00+00:00"))
    other.checkpoint.write_bytes(files.checkpoint.read_bytes())
    assert "belongs to another run" in message_of(lambda: Run.load(other.run))


def test_an_agent_is_no_checkpoint_and_a_checkpoint_is_no_agent(files):
    agent, checkpoint = files.agent.read_bytes(), files.checkpoint.read_bytes()
    files.agent.write_bytes(checkpoint)
    files.checkpoint.write_bytes(agent)
    assert "is not a file of the kind" in message_of(lambda: content_of(files, "agent"))
    assert "is not a file of the kind" in message_of(lambda: content_of(files, "checkpoint"))

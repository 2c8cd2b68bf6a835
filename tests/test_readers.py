"""What readers are given is small against what it costs to read, and means what it meant when it was written."""

import dataclasses
import itertools
import json
import os

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import (
    TINY_WORDS,
    assert_refused,
    copy_of_tiny_run,
    file_of,
    forge_arrays,
    forge_manifest,
    mac,
    message_of,
    only_begun,
    run_python,
    safetensors_of,
    snapshot,
    tiny_run,
)
from mean_actor_critic import machine
from mean_actor_critic.environments.catalogue import COMPILED
from mean_actor_critic.environments.programs import PROGRAMS
from mean_actor_critic.environments.spaces import Spaces, fitted
from mean_actor_critic.errors import MacError, OutOfMemoryError
from mean_actor_critic.files import LARGEST_JSON
from mean_actor_critic.runs import arrays, store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.expected import STATE_OF_OURS, most_bytes
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec import grid as grids
from mean_actor_critic.spec.experiment import applicable_settings, make_experiment
from mean_actor_critic.studies import search
from mean_actor_critic.studies.sweep import CELL_FORMAT, CellResult, Sweep, create_sweep, plan_from_json

# --- arrays are described before they are read -----------------------------------------------------------------------

GRID = {"choices": {"hidden": [[], [8]], "actor_lr": [0.1, 0.01]}, "fixed": {}}
PLAN = {
    "environment": "CartPole-v0", "algorithms": ["mac"], "grid": GRID, "rungs": [{"trials": 1, "episodes": 2}],
    "keep": 1.0, "rule": "area", "seed": 10**6,
}  # fmt: skip
READ = {"checkpoint": lambda files: Run.load(files.run), "agent": lambda files: Agent.load(files.agent)}


def grow(file, size):
    """Make the first array of a file so large, which takes no room on a disk: it is all holes."""
    whole = file.read_bytes()
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    words = header["__metadata__"]
    large = {"zzz": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    with file.open("wb") as opened:
        opened.write(safetensors_of({"__metadata__": words, **large}))
        opened.truncate(opened.tell() + size)


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("size", [3 * 10**9, 40 * 10**9])
def test_a_file_that_is_all_holes_is_refused_before_it_is_read(files, monkeypatch, kind, size):
    grow(file_of(files, kind), size)
    monkeypatch.setattr(arrays, "content", None)  # is not called
    monkeypatch.setattr(store, "content", None)
    assert str(file_of(files, kind)) in message_of(lambda: READ[kind](files))


def test_the_same_holds_for_the_cells_of_a_search(tmp_path, monkeypatch):
    sweep = create_sweep(tmp_path / "s", plan_from_json(PLAN), {})
    cell = sweep.cells_of("mac", 0)[0]
    curves = np.zeros((len(cell.points), 1, 2), np.float32)
    sweep.write(cell, CellResult(curves, np.zeros(curves.shape[:2], np.int32), 0.0))
    Sweep.load(tmp_path / "s").read(cell)
    grow(tmp_path / "s" / "cells" / f"{cell.name}.safetensors", 3 * 10**9)
    monkeypatch.setattr(store, "content", None)
    assert "does not fit the plan" in message_of(lambda: Sweep.load(tmp_path / "s").read(cell))


@pytest.mark.parametrize("kind", READ)
def test_many_arrays_are_refused_before_any_is_made(files, monkeypatch, kind):
    file = file_of(files, kind)
    words = {"format": "x"}
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    file.write_bytes(safetensors_of({"__metadata__": words, **{str(number): empty for number in range(400_000)}}))
    monkeypatch.setattr(arrays, "_blank", None)
    message_of(lambda: READ[kind](files))
    file.write_bytes(safetensors_of({"__metadata__": words, **{str(number): empty for number in range(30_000)}}))
    message_of(lambda: READ[kind](files))


def test_what_a_manifest_allows_but_the_memory_does_not_is_refused_in_one_line(files, monkeypatch):
    monkeypatch.setattr(machine, "room", lambda: machine.Room(100, "free on this machine"))
    monkeypatch.setattr(store, "content", None)
    with pytest.raises(OutOfMemoryError, match="not enough memory to read it"):
        Agent.load(files.agent)


def test_reading_takes_the_memory_of_what_is_read_and_no_more(tmp_path):
    store.write_arrays(tmp_path / "large", {"x": np.zeros(10**8, np.uint8)}, {"format": "f"})
    script = """
import resource, sys
from pathlib import Path
from mean_actor_critic.runs import store
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store.read_arrays(Path(sys.argv[1]), "f")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1000)
"""
    assert int(run_python(script, tmp_path / "large").out) < 150


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
DESCRIBED_WRONGLY = {
    "no type": {**ENTRY, "dtype": None},
    "an unknown type": {**ENTRY, "dtype": "BF16"},
    "no shape": {**ENTRY, "shape": 1},
    "a shape below zero": {**ENTRY, "shape": [-1]},
    "a shape that is true": {**ENTRY, "shape": [True]},
    "another shape": {**ENTRY, "shape": [2]},
    "nothing of a shape beyond any memory": {**ENTRY, "shape": [0, 2**61, 2**61], "data_offsets": [0, 0]},
    "too many dimensions": {**ENTRY, "shape": [1] * 100},
    "no place": {**ENTRY, "data_offsets": None},
    "a place beyond the file": {**ENTRY, "data_offsets": [4, 8]},
    "a place that ends before it begins": {**ENTRY, "data_offsets": [4, 0]},
    "something else": {**ENTRY, "more": 1},
    "a number": 4,
}


@pytest.mark.parametrize("entry", DESCRIBED_WRONGLY.values(), ids=DESCRIBED_WRONGLY)
def test_arrays_that_are_described_wrongly_are_refused(tmp_path, entry):
    file = tmp_path / "file"
    file.write_bytes(safetensors_of({"__metadata__": {"format": "f"}, "x": entry}, bytes(4)))
    assert "damaged" in message_of(lambda: store.read_arrays(file, "f"))


def test_arrays_that_share_their_place_are_refused(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(safetensors_of({"__metadata__": {"format": "f"}, "x": ENTRY, "y": ENTRY}, bytes(4)))
    assert "damaged" in message_of(lambda: store.read_arrays(file, "f"))


def test_arrays_of_every_kind_come_back_as_they_were(tmp_path):
    written = {
        name: np.arange(6).reshape(2, 3).astype(kind) for name, kind in zip("abcdefghijkl", "?bBhHiIlLefd", strict=True)
    }
    written |= {"one": np.float32(3), "none": np.zeros((2, 0)), "turned": np.arange(6.0).reshape(2, 3).T}
    store.write_arrays(tmp_path / "file", written, {"format": "f"})
    read, words = store.read_arrays(tmp_path / "file", "f")
    assert words == {"format": "f"}
    assert {name: (x.dtype, x.shape, x.tobytes()) for name, x in read.items()} == {
        name: (x.dtype, x.shape, np.asarray(x).tobytes()) for name, x in written.items()
    }
    assert all(array.flags.writeable for array in read.values())


# --- how large a checkpoint can be -----------------------------------------------------------------------------------

SETTINGS = {
    "episodic": ({}, {"hidden": (), "replay_capacity": 1}, {"hidden": (300, 300, 300), "replay_capacity": 10**6}),
    "replayed": ({}, {"hidden": (), "replay_capacity": 1, "environments": 1024}, {"critics": 8, "hidden": (1000,)}),
    "rollout": ({}, {"hidden": (), "environments": 1, "rollout_steps": 1000}, {"hidden": (1000,)}),
}  # fmt: skip


@pytest.mark.parametrize("environment", ["CartPole-v0", "Taxi-v3", "MinAtar/Seaquest-v1"])
@pytest.mark.parametrize("learner", SETTINGS)
def test_no_state_is_larger_than_what_its_manifest_allows(environment, learner):
    """Where environments are programs, more is allowed, for what these are at."""
    import jax

    from mean_actor_critic.engines.updates import initial

    seen = COMPILED[environment].spaces
    for given_settings in SETTINGS[learner]:
        for algorithm in ("mac", "reinforce") if learner == "episodic" else ("mac",):
            some = {name: x for name, x in given_settings.items() if algorithm == "mac" or name == "hidden"}
            experiment = fitted(
                make_experiment(environment, algorithm, 3, 50, 0, some, engine="hosted", learner=learner), seen
            )
            state = jax.eval_shape(lambda e=experiment: initial(e.setup, seen.flat_shapes, jax.random.key(0)))
            size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((state.learner, state.replay)))
            assert 3 * size < most_bytes(experiment, seen, 0) < float("inf")


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
    create_sweep(tmp_path / "s", plan_from_json(PLAN), {})
    Sweep.load(tmp_path / "s")
    reversed_in(tmp_path / "s" / "sweep.json", "plan", "grid", "choices")
    assert "checksum" in message_of(lambda: Sweep.load(tmp_path / "s"))


def test_files_that_were_sealed_in_the_order_of_names_are_still_read(tmp_path):
    files = copy_of_tiny_run(tmp_path)
    document = json.loads(files.manifest.read_bytes())
    del document["sha256"]
    files.manifest.write_text(json.dumps({**document, "sha256": store.digest_without_order(document)}))
    assert store.read_manifest(files.run).experiment.environment == "CartPole-v0"


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_of_ours_has_more_to_keep_than_is_allowed(name):
    import jax

    environment = COMPILED[name].build()
    state = jax.eval_shape(environment.initial, jax.random.key(0))
    size = sum(
        x.size * x.dtype.itemsize
        for x in jax.tree.leaves(state)
        if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    )
    assert 4 * size < STATE_OF_OURS


# --- lists pass over what they cannot read ---------------------------------------------------------------------------


def a_search(folder):
    return create_sweep(folder, plan_from_json(PLAN), {})


def absurd(document):
    """More evaluations than any memory holds the results of."""
    document["experiment"].update(budget={"unit": "episodes", "amount": 10**6}, trials=100)
    document["experiment"]["settings"].update(evaluation_interval=1, evaluation_episodes=10_000)


BROKEN = {
    "absurd": absurd,
    "longer": lambda document: document.update(extended=[[document["versions"]["jax"], 2**62]]),
    "infinite": lambda document: document["experiment"].update(until=10**400),
    "digits": lambda document: document["experiment"].update(seed=10**4000),
    "surrogate": lambda document: document["experiment"].update(environment="\ud800[/x]"),
}


@pytest.mark.usefixtures("in_tmp_path")
def test_one_folder_does_not_hide_the_others(tmp_path, monkeypatch):
    names = [*BROKEN, "[/x]", "[bold]", os.fsdecode(b"not\xffutf"), "\n", "-"]
    for name in names:
        files = copy_of_tiny_run(tmp_path / "runs" / name)
        if name in BROKEN:
            forge_manifest(files, BROKEN[name])
            only_begun(files)
    a_search(tmp_path / "runs" / "search")
    for name, make in (("folder", lambda path: path.mkdir()), ("pipe", os.mkfifo)):
        (tmp_path / "runs" / name).mkdir()
        make(tmp_path / "runs" / name / "manifest.json")
    outcome = mac("runs")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("│ finished") == len(names) - len(BROKEN)
    for name in (*BROKEN, "pipe"):
        assert f"│ {name}" in outcome.out
    assert all(len(line) < 200 for line in outcome.out.splitlines())


@pytest.mark.usefixtures("in_tmp_path")
def test_what_no_reader_has_thought_of_does_not_hide_the_others(tmp_path, monkeypatch):
    copy_of_tiny_run(tmp_path / "runs")
    a_search(tmp_path / "runs" / "search")
    monkeypatch.setattr(Sweep, "load", lambda path: 1 // 0)
    outcome = mac("runs")
    assert "ZeroDivisionError" in outcome.out
    assert "finished" in outcome.out


def test_a_run_that_has_only_begun_takes_no_memory(files):
    forge_manifest(
        files, lambda document: document["experiment"].update(trials=1000, budget={"unit": "episodes", "amount": 10**5})
    )
    run = Run.load(only_begun(files))
    assert run.returns.shape == run.lengths.shape == (1000, 10**5)
    assert run.returns.strides == run.lengths.strides == (0, 0)
    assert np.isnan(run.returns[:2]).all()
    assert not run.lengths[:2].any()


def test_budgets_of_a_run_that_was_extended_grow(files):
    run = store.read_manifest(files.run)
    for amounts in ([3], [2, 2], [2, 1]):
        forge_manifest(files, lambda document, amounts=amounts: document.update(extended=[["x", n] for n in amounts]))
        message_of(lambda: store.read_manifest(files.run))
    forge_manifest(files, lambda document: document.update(extended=[["x", 1], ["y", 2]]))
    assert store.read_manifest(files.run).before("y").budget.amount == 2
    assert run.experiment.budget.amount == 3


# --- what is refused leaves nothing ----------------------------------------------------------------------------------


def refuse(*_, **__):
    raise MacError("no")


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize("out", [(), ("--out", "given"), ("--out", "a/b/c")])
def test_a_training_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch, out):
    from mean_actor_critic.runs import loop

    monkeypatch.setattr(loop, "make_study", refuse)
    (tmp_path / "given").mkdir()
    assert_refused(mac("train", "CartPole-v0", *TINY_WORDS, *out, "--quiet"), 2, "no")
    assert snapshot(tmp_path) == {"given": None}


@pytest.mark.usefixtures("in_tmp_path")
def test_a_training_with_more_evaluations_than_memory_holds_leaves_nothing(tmp_path):
    words = ("--trials", "1000", "--steps", "1_000_000", "--evaluate-every", "100")
    assert_refused(mac("train", "CartPole-v1", *words), 2, "evaluations", "up to 100000000")
    assert snapshot(tmp_path) == {}


@pytest.mark.usefixtures("in_tmp_path")
def test_a_run_that_cannot_be_resumed_stays(files, monkeypatch):
    from mean_actor_critic.runs import loop

    monkeypatch.setattr(loop, "make_study", refuse)
    assert_refused(mac("resume", only_begun(files), "--quiet"), 2, "no")
    assert files.manifest.exists()


def test_a_search_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "require_memory", refuse)
    with pytest.raises(MacError):
        next(search.search(tmp_path / "a" / "s", plan_from_json(PLAN)))
    assert snapshot(tmp_path) == {}


def test_a_search_that_is_there_stays(tmp_path, monkeypatch):
    a_search(tmp_path / "s")
    monkeypatch.setattr(search, "require_memory", refuse)
    with pytest.raises(MacError):
        next(search.search(tmp_path / "s", plan_from_json(PLAN)))
    assert (tmp_path / "s" / "sweep.json").exists()


@pytest.mark.usefixtures("in_tmp_path")
def test_a_folder_for_results_that_there_are_not_is_gone_again(tmp_path, monkeypatch):
    with pytest.raises(MacError), store.folder_for_results(tmp_path / "a" / "b"):
        refuse()
    assert snapshot(tmp_path) == {}
    with store.folder_for_results(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "result").touch()
    assert (tmp_path / "a" / "b" / "result").exists()


def test_settings_that_no_reader_would_take_are_refused_when_they_are_written(tmp_path, files):
    experiment, seen = store.read_manifest(files.run)[:2]
    large = dataclasses.replace(experiment, environment_kwargs={"x": "x" * LARGEST_JSON})
    message_of(lambda: store.create_run(tmp_path / "large", large, seen, 1, {}))
    assert not (tmp_path / "large").exists()


# --- searches whose plan is small and whose points are many ----------------------------------------------------------


def planned(**changes):
    return plan_from_json({**PLAN, **changes})


def test_a_search_of_more_points_than_anybody_trains_is_refused_before_they_are_made(monkeypatch):
    many = {"choices": {name: list(range(1, 101)) for name in ("minibatches", "batch_size", "replay_capacity")}}
    monkeypatch.setattr(grids.Grid, "points", None)
    assert "1000000 combinations" in message_of(lambda: planned(grid=many))


RUNG = {"trials": 2, "episodes": 4}
RUNGS = {
    "many": [RUNG] * 200_000,
    "too many": [{**RUNG, "trials": n} for n in range(1, 30)],
    "the same twice": [RUNG, RUNG],
    "falling": [RUNG, {**RUNG, "trials": 1}],
    "falling episodes": [RUNG, {"trials": 3, "episodes": 3}],
    "large": [{"trials": 100_000, "episodes": 10**7}],
    "none": [],
}


@pytest.mark.parametrize("rungs", RUNGS.values(), ids=RUNGS)
def test_rungs_are_few_and_grow(rungs):
    message_of(lambda: planned(rungs=rungs))


def test_algorithms_of_a_plan_are_not_more_than_there_are():
    message_of(lambda: planned(algorithms=["mac"] * 1000))


def points_one_by_one(grid, algorithm):
    """All combinations, of the settings that the algorithm reads, those that come twice left out."""
    found = {}
    for values in itertools.product(*grid.choices.values()):
        tried = {**grid.fixed, **dict(zip(grid.choices, values, strict=True))}
        if "lr" in tried:
            rate = tried.pop("lr")
            tried |= {"actor_lr": rate, "critic_lr": rate}
        point = {**grid.start.get(algorithm, {}), **tried}
        point = {name: value for name, value in point.items() if name in applicable_settings(algorithm)}
        if not point.get("hidden", "some"):
            point.pop("activation", None)
        found.setdefault(json.dumps(point, sort_keys=True), point)
    return list(found.values())


VALUES = {
    "hidden": [[], [4], [8], []], "activation": ["relu", "tanh", "relu"], "optimizer": ["adam", "sgd"],
    "actor_lr": [0.1, 0.1, 1, 1.0], "critic_lr": [0.1, 0.2], "minibatches": [1, 2], "baseline_decay": [0.1, 0.5],
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4, unique=True),
    fixed=st.dictionaries(st.sampled_from(["hidden", "activation", "minibatches"]), st.just(0), max_size=2),
    tied=st.booleans(),
)
def test_points_are_all_combinations_in_their_order_each_once(names, fixed, tied):
    choices = {name: VALUES[name] for name in names if not (tied and name.endswith("_lr"))}
    choices |= {"lr": [0.1, 0.2, 0.1]} if tied else {}
    grid = grids.grid_from_json(
        {
            "choices": choices,
            "fixed": {name: VALUES[name][0] for name in fixed if name not in choices},
            "start": {"mac": {"optimizer": "sgd", "activation": "tanh", "hidden": [2]}},
        }
    )
    for algorithm in ("mac", "reinforce", "advantage_reinforce"):
        expected = points_one_by_one(grid, algorithm)
        found = grid.points(algorithm)
        assert [list(point.items()) for point in found] == [list(point.items()) for point in expected]


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "9" * 5000, "soon"])
def test_a_cell_took_a_time(tmp_path, seconds):
    sweep = a_search(tmp_path / "s")
    cell = sweep.cells_of("mac", 0)[0]
    curves = np.zeros((len(cell.points), 1, 2), np.float32)
    sweep.write(cell, CellResult(curves, np.zeros(curves.shape[:2], np.int32), 0.0))
    file = tmp_path / "s" / "cells" / f"{cell.name}.safetensors"
    found, words = store.read_arrays(file, CELL_FORMAT)
    store.write_arrays(file, found, {**words, "seconds": seconds})
    assert "how long it took" in message_of(lambda: Sweep.load(tmp_path / "s").read(cell))


# --- numbers in checkpoints that no training gives -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lengths", "state/diverged_at", "state/episode"])
def test_counts_below_zero_are_refused(files, name):
    old = store.read_arrays(files.checkpoint, store.CHECKPOINT_FORMAT)[0][name]
    forge_arrays(files.checkpoint, {name: np.full_like(old, -1)})
    assert "does not fit its manifest" in message_of(lambda: Run.load(files.run))


@pytest.mark.parametrize("evaluated", [-1, 5, 2**31 - 1])
def test_more_evaluations_than_there_are_is_refused(tmp_path, evaluated):
    run = tiny_run(tmp_path, "CartPole-v0", evaluation_interval=2, evaluation_episodes=1)
    file = max(run.path.glob("checkpoint-*"))
    forge_arrays(file, {"evaluated": np.full(2, evaluated, np.int32)})
    assert "does not fit its manifest" in message_of(lambda: Run.load(run.path))

"""Searches: every cell once, whatever interrupts them; one program for many settings; winners by the rule asked for."""

import itertools
import json
import logging
import random
import re
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import EPISODIC, LONGEST_WAIT, assert_refused, mac, message_of
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.learning.networks import ACTIVATIONS
from mean_actor_critic.learning.optimizers import directions
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.grid import grid_from_json, read_grid
from mean_actor_critic.spec.learners import OPTIMIZERS
from mean_actor_critic.spec.paper import CLASSIC_CONTROL, papers_grid
from mean_actor_critic.spec.presets import SEARCH_SEEDS, settings_of_preset
from mean_actor_critic.studies.search import make_plan, search
from mean_actor_critic.studies.sweep import CellResult, Outcome, Rung, Sweep, create_sweep, scores

SMALL = {"max_episode_steps": 40, "minibatches": 2, "batch_size": 8, "replay_capacity": 100}
TINY = {"choices": {"hidden": [[8]], "optimizer": ["sgd", "adam"], "lr": [0.001, 0.01]}, "fixed": SMALL}


def tiny_plan(document=TINY, algorithms=("mac",), trials=2, episodes=6, **options):
    return make_plan("CartPole-v0", algorithms, grid_from_json(document), trials, episodes, **options)


def train(folder, plan):
    """The finished sweep, and the cells that were trained."""
    trained = [done.cell for done in search(folder, plan) if not done.reused]
    return Sweep.load(folder), trained


# --- grids -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EPISODIC)
@pytest.mark.parametrize("task", CLASSIC_CONTROL.values(), ids=CLASSIC_CONTROL)
def test_the_paper_s_grid_has_1036_settings_of_every_algorithm(task, algorithm):
    grid = papers_grid(task.environment)
    assert json.loads(json.dumps(grid)) == grid
    points = grid_from_json(grid).points(algorithm)
    assert len(points) == 1036
    assert len({json.dumps(point, sort_keys=True) for point in points}) == 1036
    assert sum("activation" not in point for point in points) == 4 * 7  # the linear networks
    for point in points:  # all can be trained
        make_experiment(task.environment, algorithm, 1, 1, 0, point)


def test_a_tied_rate_is_both_rates():
    (point,) = grid_from_json({"choices": {"lr": [0.5]}}).points("mac")
    assert point == {"actor_lr": 0.5, "critic_lr": 0.5}
    assert grid_from_json({"choices": {"lr": [0.5]}}).points("reinforce") == [{"actor_lr": 0.5}]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "choices"),
        ({}, "choices"),
        ({"choices": {}}, "choices"),
        ({"choices": {"lr": 0.1}}, "a list of values"),
        ({"choices": {"lr": []}}, "a list of values"),
        ({"choices": {"lr": [-1]}}, "grid: lr: -1"),
        ({"choices": {"lr": [[0.1, 0.2]]}}, "grid: lr"),
        ({"choices": {"hiden": [[64]]}}, "did you mean hidden"),
        ({"choices": {"hidden": [[0]]}}, "grid: hidden"),
        ({"choices": {"optimizer": ["any"]}}, "grid: optimizer: 'any'"),
        ({"choices": {"lr": [0.1]}, "fixed": {"lr": 0.1}}, "each setting once"),
        ({"choices": {"lr": [0.1], "actor_lr": [0.1]}}, "each setting once"),
        ({"choices": {"actor_lr": [0.1, 0.2]}, "fixed": {"lr": 0.01}}, "each setting once"),
        ({"choices": {"hidden": [[8]]}, "fixed": {"lr": 0.01, "critic_lr": 0.1}}, "each setting once"),
        ({"choices": {"hidden": [64]}}, "a list of widths"),
        ({"choices": {"max_episode_steps": [100, 200]}}, "do not compare"),
        ({"choices": {"lr": [0.1]}, "more": 1}, "choices"),
        ({"choices": {name: [0.1] * 101 for name in ("actor_lr", "critic_lr", "discount", "baseline_decay")}}, "up to"),
    ],
)
def test_a_grid_that_cannot_be_used_is_refused_in_one_line(document, words, tmp_path):
    assert words in message_of(lambda: grid_from_json(document))
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(document))
    assert_refused(mac("sweep", "cart-pole", "--grid", file, "--out", tmp_path / "s"), 2, words)
    assert not (tmp_path / "s").exists()


def test_a_file_that_is_no_grid_is_refused_in_one_line(tmp_path):
    (tmp_path / "text").write_text("nothing")
    assert "JSON" in message_of(lambda: read_grid(tmp_path / "text"))
    assert "JSON" in message_of(lambda: read_grid(tmp_path / "absent"))


# --- one program for many settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_traced_optimiser_takes_the_named_one_s_steps(name):
    weights = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2))}
    named = directions(name)
    traced = directions(jnp.int32(OPTIMIZERS.index(name)))
    state, slots = named.init(weights), traced.init(weights)
    for step in range(5):
        gradient = jax.tree.map(lambda w, step=step: jnp.sin(w + step), weights)
        direction, state = named.update(gradient, state)
        same, slots = jax.jit(traced.update)(gradient, slots)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), direction, same)


def finished(experiment, shared):
    study = CompiledStudy(experiment, find_environment("CartPole-v0"), 2, None, shared_program=shared)
    while not study.finished:
        study.advance()
    return study.arrays()


@pytest.mark.slow
def test_all_activations_and_optimisers_share_one_compilation_and_learn_as_their_own_programs_do(caplog):
    def experiment(activation, optimizer):
        settings = {**SMALL, "hidden": (9,), "activation": activation, "optimizer": optimizer, "actor_lr": 0.02}
        return make_experiment("CartPole-v0", "mac", 2, 5, 0, settings)

    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level(logging.WARNING):
            together = {
                pair: finished(experiment(*pair), shared=True) for pair in itertools.product(ACTIVATIONS, OPTIMIZERS)
            }
    finally:
        jax.config.update("jax_log_compiles", False)
    assert sum(text.startswith("Compiling jit(_advance)") for text in caplog.messages) == 1
    # every activation and every optimiser once: the rest are the same code
    for pair in (("relu", "adam"), ("leaky_relu", "rmsprop"), ("tanh", "sgd"), ("relu", "adadelta")):
        own = finished(experiment(*pair), shared=False)
        np.testing.assert_array_equal(together[pair]["lengths"], own["lengths"])
        for name in ("state/policy/0/weight", "state/critic/1/weight"):
            np.testing.assert_allclose(together[pair][name], own[name], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_setting_that_diverges_does_not_change_its_neighbours(tmp_path):
    wild, tame = (
        {"choices": {"actor_lr": [0.01, rate, 0.02], "hidden": [[8]]}, "fixed": SMALL} for rate in (1e9, 0.001)
    )
    (first, _), (second, _) = (train(tmp_path / str(i), tiny_plan(grid)) for i, grid in enumerate((wild, tame)))
    results = [{o.settings["actor_lr"]: o for o in sweep.outcomes()} for sweep in (first, second)]
    assert results[0][1e9].diverged_at.all()
    assert np.isfinite(results[0][1e9].returns).all()
    for rate in (0.01, 0.02):
        np.testing.assert_array_equal(results[0][rate].returns, results[1][rate].returns)
        assert not results[0][rate].diverged_at.any()


def test_the_points_of_a_cell_have_the_same_trials(tmp_path):
    same_twice = {"choices": {"actor_lr": [0.01, 0.01000001], "hidden": [[8]]}, "fixed": {**SMALL, "critic_lr": 0.01}}
    sweep, _ = train(tmp_path / "s", tiny_plan(same_twice, trials=3))
    first, second = sweep.outcomes()
    np.testing.assert_array_equal(first.returns[:, 0], second.returns[:, 0])  # before anything was learned
    assert len(np.unique(first.returns[:, 0])) > 1


# --- the search ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_search_trains_nothing_and_another_plan_is_refused(tmp_path):
    plan = tiny_plan()
    sweep, trained = train(tmp_path / "s", plan)
    assert len(trained) == 2
    assert sweep.finished
    again, none = train(tmp_path / "s", plan)
    assert not none
    assert again.results_digest == sweep.results_digest
    assert "has other rungs" in message_of(lambda: list(search(tmp_path / "s", tiny_plan(trials=3))))
    other = message_of(lambda: list(search(tmp_path / "s", tiny_plan(algorithms=("reinforce",)))))
    assert "has other algorithms" in other


@pytest.mark.slow
@pytest.mark.parametrize("halving", [None, "trials"])
def test_a_damaged_cell_is_set_aside_and_trained_again(halving, tmp_path):
    plan = tiny_plan(halving=halving)
    sweep, trained = train(tmp_path / "s", plan)
    assert trained[1].rung == 0
    file = tmp_path / "s" / "cells" / f"{trained[1].name}.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="trained again"):
        again, (cell,) = train(tmp_path / "s", plan)
    assert cell.name == trained[1].name
    assert again.results_digest == sweep.results_digest
    assert file.with_name(f"{file.name}.damaged").read_bytes() == content


def test_a_search_killed_while_its_folder_was_made_goes_on(tmp_path):
    plan = tiny_plan()
    early, later = tmp_path / "early", tmp_path / "later"
    early.mkdir()
    (early / ".sweep.json.1.tmp").write_bytes(b"{")
    create_sweep(later, plan, {})
    (later / "cells").mkdir()
    (later / "cells" / ".x.safetensors.1.tmp").write_bytes(b"x")
    first, _ = train(early, plan)
    second, _ = train(later, plan)
    assert first.results_digest == second.results_digest
    assert not list(early.rglob("*.tmp"))
    assert not list(later.rglob("*.tmp"))


def test_a_cell_knows_its_points(tmp_path):
    train(tmp_path / "s", tiny_plan())
    sweep = Sweep.load(tmp_path / "s")
    cell = next(sweep.cells("mac"))
    assert "other settings" in message_of(lambda: sweep.read(cell._replace(points=cell.points[::-1])))


@pytest.mark.slow
def test_many_points_of_one_program_are_several_cells(tmp_path, monkeypatch):
    plan = tiny_plan({**TINY, "choices": {"lr": [0.001, 0.003, 0.01, 0.03, 0.1]}}, trials=2)
    whole, (cell,) = train(tmp_path / "whole", plan)
    of_whole = whole.outcomes()
    monkeypatch.setattr("mean_actor_critic.studies.sweep.MOST_TRAININGS", 5)
    parts, cells = train(tmp_path / "parts", plan)
    assert [(part.name, part.points) for part in cells] == [
        (f"{cell.name}-part0", (0, 1)), (f"{cell.name}-part1", (2, 3)), (f"{cell.name}-part2", (4,)),
    ]  # fmt: skip
    for one, other in zip(of_whole, parts.outcomes(), strict=True):
        assert one.settings == other.settings
        np.testing.assert_allclose(one.returns, other.returns)
    monkeypatch.setattr("mean_actor_critic.studies.sweep.MOST_TRAININGS", 1)
    assert [len(part.points) for part in Sweep.load(tmp_path / "whole").cells("mac")] == [1] * 5


def test_who_wins_a_search_without_rounds_can_be_asked_by_another_rule(tmp_path):
    words = ("sweep", "cart-pole", "--algorithm", "mac", "--trials", "2", "--episodes", "6", "--out", tmp_path / "s")
    (tmp_path / "grid.json").write_text(json.dumps(TINY))
    assert "Best by asymptotic" in mac(*words, "--grid", tmp_path / "grid.json").out
    other = mac(*words, "--grid", tmp_path / "grid.json", "--rule", "area")
    assert other.code == 0
    assert "Best by area" in other.out
    assert "0 trainings" in other.out
    halved = tiny_plan(halving="trials")
    train(tmp_path / "halved", halved)
    assert "other rule" in message_of(lambda: train(tmp_path / "halved", halved._replace(rule="area")))


def test_equal_by_the_rule_is_decided_by_the_other(tmp_path):
    sweep = create_sweep(tmp_path / "s", tiny_plan(), {})
    slow, fast = np.full((2, 6), 200, np.float32), np.full((2, 6), 200, np.float32)
    slow[:, 0] = 10
    for cell in sweep.cells("mac"):
        sweep.write(cell, CellResult(np.stack((slow, fast)), np.zeros((2, 2), np.int32), 0.0))
    assert _rate(Sweep.load(tmp_path / "s").winners()["mac"]) == 0.01


@pytest.mark.parametrize(("halving", "numbers"), [("trials", (1, 6)), ("episodes", (2, 2))])
def test_what_is_one_cannot_be_halved(halving, numbers):
    trials, episodes = numbers
    assert "to be halved" in message_of(lambda: tiny_plan(trials=trials, episodes=episodes, halving=halving))


@pytest.mark.slow
def test_environments_in_workers_are_searched_too(tmp_path):
    grid = {"choices": {"lr": [0.001, 0.01]}, "fixed": {**SMALL, "max_episode_steps": 15, "hidden": [8]}}
    plan = make_plan("gymnasium:Acrobot-v1", ["mac"], grid_from_json(grid), 2, 3)
    sweep, trained = train(tmp_path / "s", plan)
    assert len(trained) == 1
    assert all((outcome.returns == -15).all() for outcome in sweep.outcomes())  # nobody gets there so soon
    again, none = train(tmp_path / "s", plan)
    assert not none
    assert again.results_digest == sweep.results_digest


@pytest.mark.slow
def test_progress_of_environments_in_workers_counts_episodes_whatever_the_networks_cost(tmp_path):
    choices, fixed = {"hidden": [[4], [64, 64]]}, {**SMALL, "max_episode_steps": 15, "lr": 0.001}
    plan = make_plan("gymnasium:Acrobot-v1", ["mac"], grid_from_json({"choices": choices, "fixed": fixed}), 2, 3)
    seen = []
    after = [(seen[-1].done, seen[-1].total) for _ in search(tmp_path / "s", plan, seen.append)]
    assert after == [(6, 12), (12, 12)]


@pytest.mark.slow
def test_halving_trains_the_best_third_longer(tmp_path):
    grid = {**TINY, "choices": {"hidden": [[8]], "lr": [0.0, 0.001, 0.003, 0.01, 0.03, 0.1]}}
    sweep, cells = train(tmp_path / "s", tiny_plan(grid, trials=10, halving="trials"))
    assert sweep.plan.rungs == (Rung(2, 6), Rung(5, 6), Rung(10, 6))
    assert [(cell.rung, len(cell.points), cell.first_trial, cell.trials) for cell in cells] == [
        (0, 6, 0, 2), (1, 2, 2, 3), (2, 1, 5, 5),
    ]  # fmt: skip
    by_point = {o.settings["actor_lr"]: o for o in sweep.outcomes()}
    of_first = {rate: np.mean(scores(o.returns[:2], "asymptotic")) for rate, o in by_point.items()}
    climbed = {rate for rate, outcome in by_point.items() if outcome.rung > 0}
    best_first = sorted(of_first, key=lambda rate: (-of_first[rate], rate))  # of equal ones the first in the grid
    assert climbed == set(best_first[:2])
    assert sorted(len(o.returns) for o in by_point.values()) == [2, 2, 2, 2, 5, 10]
    assert len(sweep.winners()["mac"].returns) == 10
    assert sweep.plan.episodes(6) == 6 * (6 * 2 + 2 * 3 + 1 * 5)


def test_longer_rungs_begin_anew(tmp_path):
    grid = {**TINY, "choices": {"hidden": [[8]], "lr": [0.001, 0.003, 0.01]}}
    sweep, cells = train(tmp_path / "s", tiny_plan(grid, episodes=9, halving="episodes"))
    assert [(cell.episodes, len(cell.points), cell.first_trial) for cell in cells] == [(1, 3, 0), (3, 1, 0), (9, 1, 0)]
    assert sorted(o.returns.shape for o in sweep.outcomes()) == [(2, 1), (2, 1), (2, 9)]


def test_the_winner_depends_on_the_rule(tmp_path):
    sweep = create_sweep(tmp_path / "s", tiny_plan(), {})
    late, early = np.zeros((2, 6), np.float32), np.zeros((2, 6), np.float32)
    late[:, 4:], early[:, :4] = 10, 9
    (cell, other) = sweep.cells("mac")
    for which, curves in ((cell, (late, early)), (other, (late / 2, early / 2))):
        sweep.write(which, CellResult(np.stack(curves), np.zeros((2, 2), np.int32), 1.5))
    loaded = Sweep.load(tmp_path / "s")
    assert loaded.seconds == 3
    assert _rate(loaded.winners()["mac"]) == _rate(loaded.by("asymptotic").winners()["mac"]) == 0.001
    assert _rate(loaded.by("area").winners()["mac"]) == 0.01


def _rate(outcome: Outcome) -> float:
    return outcome.settings["actor_lr"]


@pytest.mark.parametrize("seed", [0, SEARCH_SEEDS.start - 1])
def test_reporting_seeds_are_not_searched_with(seed, tmp_path):
    assert "reported" in message_of(lambda: list(search(tmp_path / "s", tiny_plan(seed=seed))))
    assert not (tmp_path / "s").exists()


def test_search_seeds_are_not_reported_with(tmp_path):
    words = ("--seed", str(SEARCH_SEEDS.start), "--trials", "1", "--episodes", "1", "--out", tmp_path / "r")
    assert_refused(mac("reproduce", "cart-pole", *words), 2, "seed")


@pytest.mark.parametrize("words", [("--seed", str(SEARCH_SEEDS.start)), ("--trials", "0"), ("--episodes", "0")])
def test_what_a_full_study_cannot_use_is_refused_before_its_search(words, tmp_path):
    assert_refused(mac("reproduce", "cart-pole", "--full", *words, "--out", tmp_path / "r"), 2, words[1])
    assert not (tmp_path / "r").exists()


def test_no_episodes_are_not_the_usual_number_of_them(tmp_path):
    assert_refused(mac("sweep", "cart-pole", "--episodes", "0", "--out", tmp_path / "s"), 2, "episodes: 0")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killable(tmp_path_factory):
    """A sweep of a dozen short cells, and what comes of it uninterrupted."""
    folder = tmp_path_factory.mktemp("whole")
    grid = {"choices": {"hidden": [[16]], "activation": ["relu", "tanh"], "optimizer": ["sgd", "adam", "rmsprop"],
                        "lr": [0.001, 0.01]}, "fixed": {**SMALL, "minibatches": 20}}  # fmt: skip
    (folder / "grid.json").write_text(json.dumps(grid))
    words = ["sweep", "cart-pole", "--algorithm", "mac", "reinforce", "--grid", str(folder / "grid.json"),
             "--trials", "4", "--episodes", "150", "--halving", "trials"]  # fmt: skip
    subprocess.run(_command(*words, "--quiet", "--out", folder / "s"), check=True, timeout=300)
    return words, Sweep.load(folder / "s").results_digest


def _command(*words):
    return [sys.executable, "-m", "mean_actor_critic", *map(str, words)]


@pytest.mark.slow
def test_killed_at_random_moments_and_begun_again_gives_the_same_bits(start, killable, tmp_path, pytestconfig):
    words, uninterrupted = killable
    folder = tmp_path / "s"
    moments, kills, seen = random.Random(1), 0, {}
    for _ in range(pytestconfig.getoption("--n")):
        process = start(*words, "--out", folder)
        while process.poll() is None and len(list(folder.glob("cells/*.safetensors"))) <= len(seen):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        now = {file.name: file.stat().st_mtime_ns for file in folder.glob("cells/*.safetensors")}
        assert seen.items() <= now.items()  # no cell is lost, and none is written again
        seen = now
    last = subprocess.run(_command(*words, "--out", folder), check=True, timeout=300, capture_output=True, text=True)
    assert kills >= 2, "the sweep ended before it could be killed: make it longer"
    assert Sweep.load(folder).results_digest == uninterrupted
    assert uninterrupted[:16] in last.stdout
    assert re.search(rf"\b{len(seen)} of \d+ cells were already there", last.stdout)
    assert seen.items() <= {f.name: f.stat().st_mtime_ns for f in folder.glob("cells/*.safetensors")}.items()


@pytest.mark.slow
def test_a_signal_ends_the_sweep_and_says_how_to_go_on(start, killable, tmp_path):
    words, _ = killable
    process = start(*words, "--out", tmp_path / "s")
    while process.poll() is None and not list((tmp_path / "s").glob("cells/*.safetensors")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 143
    assert errors.strip().splitlines()[-1] == "mac: interrupted; the same command goes on from here"


@pytest.mark.slow
def test_the_command_writes_a_summary_and_says_what_was_saved(tmp_path):
    (tmp_path / "grid.json").write_text(json.dumps({**TINY, "choices": {"hidden": [[8]], "lr": [0.001, 0.01, 0.1]}}))
    outcome = mac("sweep", "CartPole-v0", "--algorithm", "mac", "--grid", tmp_path / "grid.json", "--trials", "4",
                  "--episodes", "5", "--halving", "trials", "--rule", "area", "--out", tmp_path / "s")  # fmt: skip
    assert outcome.code == 0
    assert "Best by area" in outcome.out
    assert "3 settings of MAC" in outcome.out
    assert "of the episodes saved" in outcome.out
    lines = (tmp_path / "s" / "summary.csv").read_text().splitlines()
    assert len(lines) == 1 + 3
    assert lines[0].startswith("algorithm,")


@pytest.mark.slow
def test_a_grid_of_the_user_s_starts_where_training_does_and_the_paper_s_does_not(tmp_path, monkeypatch):
    small = {**TINY, "choices": {"lr": [0.001]}}
    (tmp_path / "grid.json").write_text(json.dumps(small))
    monkeypatch.setattr("mean_actor_critic.cli.search.papers_grid", lambda _environment: small)
    few = ("reinforce", "mac")
    words = ("sweep", "CartPole-v0", "--algorithm", *few, "--trials", "1", "--episodes", "1", "--quiet", "--out")
    assert mac(*words, tmp_path / "own", "--grid", tmp_path / "grid.json").code == 0
    assert mac(*words, tmp_path / "papers").code == 0
    own, papers = (Sweep.load(tmp_path / name) for name in ("own", "papers"))
    assert own.plan.algorithms == papers.plan.algorithms == few
    for algorithm in few:
        (point,), (bare,) = own.points(algorithm), papers.points(algorithm)
        assert {**settings_of_preset("CartPole-v0", algorithm), **bare} == point
        assert bare["actor_lr"] == 0.001
        assert "activation" not in bare

"""Tables and figures say what the data say."""

import csv
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mean_actor_critic as mac
import synthetic
from mean_actor_critic.reports import classic_control as report
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports.answer import answer
from mean_actor_critic.reports.digits import decimals, decimals_of, rounded
from mean_actor_critic.reports.files import curves_title, write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.search import winners_sheet
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.statistics import summarise, trial_scores
from mean_actor_critic.reports.tables import (
    diverged_line,
    extent_and_mean,
    results_sheet,
    results_tables,
    run_table,
    runs_table,
)
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.paper import CLASSIC_CONTROL
from mean_actor_critic.studies.sweep import CellResult, Rung, scores

CART_POLE = CLASSIC_CONTROL["cart-pole"]


def text_of(table):
    """A table as a wide terminal shows it."""
    text = io.StringIO()
    Console(width=300, file=text).print(table)
    return text.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: mac.train("CartPole-v0", name, trials=3, episodes=4, out=folder / name, hidden=(4,), max_episode_steps=20)
        for name in ("reinforce", "advantage_reinforce")
    }


@pytest.mark.slow
def test_the_study_writes_its_table_and_figure(runs, tmp_path):
    table, curves, figure = report.write(report.study(CART_POLE, [*runs.values()], [], {}), tmp_path)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["algorithm"] for row in rows] == list(runs)
    for row in rows:
        assert float(row["mean"]) == pytest.approx(runs[row["algorithm"]].returns.mean(), abs=1e-3)
        assert row["trials"] == "3"
    points = list(csv.DictReader(curves.read_text().splitlines()))
    points = [point for point in points if point["unit"] == "episodes"]
    assert len(points) == 2 * 4
    last = points[-1]
    expected = runs[last["algorithm"]].returns[:, -1]
    assert float(last["mean"]) == pytest.approx(expected.mean(), abs=0.01)
    assert float(last["sd"]) == pytest.approx(expected.std(ddof=1), abs=0.01)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_answer_says_who_is_best(runs):
    sentence = "".join(answer(report.study(CART_POLE, [*runs.values()], [], {})))
    best = max(runs, key=lambda name: runs[name].returns.mean())
    assert sentence.startswith(f"On Cart Pole, {ALGORITHMS[best].title} has the highest mean return")
    assert f"{runs[best].returns.mean():.2f} (3 trials, which range from " in sentence
    assert "over 4 episodes" in sentence
    assert ("the order is the paper’s" in sentence) == (best == "advantage_reinforce")


@pytest.mark.parametrize(("scale", "digits"), [(1.0, 1), (0.007, 3), (1000.0, 0)])
def test_returns_are_shown_with_the_digits_that_fit_them_and_stored_with_all(tmp_path, scale, digits):
    """Cart Pole's returns around a hundred, returns between -1 and 1.4, and returns around 100,000."""
    shift = -1.0 if scale < 1 else 0.0
    scaled = {
        name: synthetic.make_run(tmp_path / "study" / name, name, scale * synthetic.learning(name, 8, 20) + shift)
        for name in ("mac", "reinforce")
    }
    content = contents.read(find_sources([tmp_path / "study"]))
    write_report(content, Recording("No video here."), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    means = {name: run.returns.mean(dtype=np.float64) for name, run in scaled.items()}
    terminal = " ".join(text_of(table) for table in results_tables(content, 300))
    sheet = results_sheet(content, 20)
    for name, mean in means.items():
        shown = f"{mean:.{digits}f}"
        cells = dict(
            zip(sheet.columns, next(row for row in sheet.rows if row[0] == ALGORITHMS[name].title), strict=True)
        )
        assert cells["mean"] == shown
        for column in ("mean", "SD over trials", "95 % interval", "IQM"):
            assert all(len(part.partition(".")[2]) == digits for part in re.findall(r"-?[\d.]+", cells[column]))
        assert f" {shown} " in terminal
        assert f"{ALGORITHMS[name].title} {shown} [" in page  # the chart in words
        alone = decimals_of([summarise(trial_scores(scaled[name].returns))])  # it may have a closer interval
        assert f" {mean:.{alone}f} " in text_of(run_table(scaled[name]))
        assert float(extent_and_mean(scaled[name])[1]) == pytest.approx(mean, rel=1 / 300)
    assert f"{max(means.values()):.{digits}f} (95 % interval " in "".join(answer(content))
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert {row["algorithm"]: float(row["mean"]) for row in rows} == pytest.approx(means, rel=1e-6)
    points = csv.DictReader((tmp_path / "out" / "learning-curves.csv").read_text().splitlines())
    drawn = [float(point["mean"]) for point in points if (point["algorithm"], point["unit"]) == ("mac", "episodes")]
    np.testing.assert_allclose(drawn, scaled["mac"].returns.mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_scores_of_searches_have_the_digits_that_fit_them(tmp_path):
    sweep = synthetic.make_sweep(tmp_path / "sweep", synthetic.GRID, (Rung(8, 9),), ("mac",), most_cells=0)
    random = np.random.default_rng(0)
    for cell in sweep.cells("mac"):
        shape = (len(cell.points), cell.trials)
        returns = random.normal(0.4, 0.3, (*shape, cell.episodes)).astype(np.float32)
        sweep.write(cell, CellResult(returns, np.zeros(shape, np.int32), 1.0))
    content = contents.read(find_sources([sweep.path]))
    (search,) = content.searches
    best = search.winners["mac"].score
    said = f"{best:.3f}"
    assert f"score {said} for MAC" in "".join(answer(content))
    assert said in winners_sheet(sweep).rows[0]


def test_few_trials_have_a_range_in_the_answer_the_tables_and_the_figures(tmp_path):
    for name in ("mac", "reinforce"):
        synthetic.make_run(
            tmp_path / "study" / name, name, np.array([[12.0], [190.0]] if name == "mac" else [[9.0], [9.5]])
        )
    content = contents.read(find_sources([tmp_path / "study"]))
    assert (
        "MAC has the highest mean return: 101.0 (2 trials, which range from 12.0 to 190.0) over 1 episodes"
        in "".join(answer(content))
    )
    sheet = results_sheet(content, 1)
    assert sheet.columns[3] == "range"
    assert sheet.rows[0][:5] == ["MAC", "101.0", "125.9", "12.0 to 190.0 (range of 2)", "178.3 ± 7.6"]
    assert "12.0 to 190.0 (range of 2)" in text_of(results_tables(content, 300)[0])
    write_report(content, Recording("No video here."), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Fewer than 6 trials allow no interval of a mean: the range of their values is shown, and says so." in page
    assert "Of fewer than 6 trials, bands are the range of their values." in page
    assert "<span>Range</span>" in page
    assert "Mean return over trials and episodes with the range of the trials" in page
    assert "Cart Pole: mean of 2 trials with their range" in (tmp_path / "out" / "learning-curves.tex").read_text()
    assert "95 % band" not in page


def test_runs_with_few_and_with_many_trials_stand_beside_each_other(tmp_path):
    synthetic.make_run(tmp_path / "study" / "few", "mac", synthetic.learning("mac", 2, 5))
    synthetic.make_run(tmp_path / "study" / "many", "reinforce", synthetic.learning("reinforce", 9, 5))
    content = contents.read(find_sources([tmp_path / "study"]))
    assert curves_title(content) == "Cart Pole: mean of 2 or 9 trials with 95 % bands or their range"
    sheet = results_sheet(content, 5)
    cells = {row[0]: row[sheet.columns.index("95 % interval or range")] for row in sheet.rows}
    assert cells["MAC"].endswith("(range of 2)")
    assert cells["REINFORCE"].startswith("[")


def test_diverged_trials_are_named(tmp_path):
    run = mac.train(
        "CartPole-v0", "reinforce", trials=3, episodes=3, out=tmp_path / "run", hidden=(4,), max_episode_steps=20,
        actor_lr=[0.01, 1e8, 0.01],
    )  # fmt: skip
    assert diverged_line(run).startswith("1 of 3 trials diverged")
    assert "1 (episode 1)" in diverged_line(run)


# --- lists of runs and sweeps ----------------------------------------------------------------------------------------


def rows_of(folder):
    """Rows of the list by the name of the folder."""
    table, count = runs_table(folder)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert len(rows) == count
    return {str(row[0]): [str(cell) for cell in row[1:]] for row in rows}


def test_sweeps_are_listed_with_how_far_they_are_and_the_best_score(tmp_path):
    synthetic.make_run(tmp_path / "run", returns=synthetic.learning("mac", 3, 5))
    rungs = (Rung(2, 30), Rung(4, 30))
    part = synthetic.make_sweep(tmp_path / "in part", synthetic.GRID, rungs, ("mac", "reinforce"), most_cells=3)
    synthetic.make_sweep(tmp_path / "deeper" / "whole", synthetic.GRID, rungs, ("mac",))
    synthetic.make_sweep(tmp_path / "begun", synthetic.GRID, rungs, ("mac",), most_cells=0)
    rows = rows_of(tmp_path)
    best = max(np.mean(scores(won.returns, "asymptotic")) for won in part.winners().values())
    assert rows["in part"][:6] == [
        "CartPole-v0", "mac, reinforce", "sweep, unfinished", "4", "18 of 36 settings", rounded(best, decimals([best])),
    ]  # fmt: skip
    assert rows["deeper/whole"][:5] == ["CartPole-v0", "mac", "sweep, finished", "4", "18 of 18 settings"]
    assert rows["begun"][2:6] == ["sweep, unfinished", "4", "0 of 18 settings", "–"]
    assert rows["run"][:3] == ["CartPole-v0", "mac", "finished"]


@pytest.mark.parametrize("name", [b"[/x]", b"\xff lone", b"[bold]", b"a\nb", b":smile:", b"back\\"])
def test_whatever_folders_are_called_their_runs_and_sweeps_are_listed(tmp_path, name):
    place = tmp_path / os.fsdecode(name)
    synthetic.make_run(place / "run", returns=synthetic.learning("mac", 2, 5), environment="[/red]")
    synthetic.make_sweep(place / "sweep", synthetic.GRID, (Rung(1, 5),), ("mac",), environment="[/red]\ud800")
    listed = text_of(runs_table(tmp_path)[0])
    assert listed.count("[/red]") == 2
    shown = os.fsdecode(name).replace("\udcff", "\ufffd").replace("\n", "\ufffd")
    assert f"{shown}/run" in listed
    assert shown in text_of(runs_table(place)[0])  # the name is in the title


def test_what_cannot_be_read_is_listed_with_the_reason_and_the_others_beside_it(tmp_path, monkeypatch):
    synthetic.make_run(tmp_path / "whole", returns=synthetic.learning("mac", 2, 5))
    broken = synthetic.make_sweep(tmp_path / "broken", synthetic.GRID, (Rung(1, 5),), ("mac",))
    next((broken.path / "cells").iterdir()).write_bytes(b"nothing")
    plan = synthetic.make_sweep(tmp_path / "plan", synthetic.GRID, (Rung(1, 5),), ("mac",), most_cells=0)
    (plan.path / "sweep.json").write_text("{}")
    closed = synthetic.make_run(tmp_path / "closed", returns=synthetic.learning("mac", 2, 5)).path
    iterdir = Path.iterdir

    def refuse(path):
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    rows = rows_of(tmp_path)
    assert rows["whole"][2] == "finished"
    assert "not a safetensors file" in rows["broken"][2]
    assert "is damaged" in rows["plan"][2]
    assert "Permission denied" in rows["closed"][2]

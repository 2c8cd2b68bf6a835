"""What was measured of the estimators: kept on disk, checked when read, shown on a page."""

import csv
import json

import numpy as np
import pytest

import browser as browsers
import mean_actor_critic as mac
import synthetic
from helpers import message_of
from mean_actor_critic.gradients.theory import EPISODE, Number, read_theory, write_theory
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.theory import verdicts
from mean_actor_critic.runs.store import digest_of_document
from mean_actor_critic.spec.algorithms import ALGORITHMS


def test_it_is_read_as_it_was_written(tmp_path):
    theory = synthetic.make_theory()
    file = write_theory(tmp_path, theory)
    read = read_theory(tmp_path)
    assert (read.claims, read.curves, read.command) == (theory.claims, theory.curves, theory.command)
    assert read.trials[1].moments[2].row("mac", EPISODE)["variance"].value == 305.0
    assert np.isnan(read.trials[0].moments[0].rows[0]["bias"].value)
    (tmp_path / "again").mkdir()
    assert write_theory(tmp_path / "again", read).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "forge",
    [
        lambda document: document.pop("claims"),
        lambda document: document.update(problems="many"),
        lambda document: document["claims"][0].update(verdict="certain"),
        lambda document: document["trials"][0].update(moments=[]),
        lambda document: document["trials"][0]["moments"][0]["rows"].pop(),
        lambda document: document["trials"][0]["moments"][0]["rows"][0].update(batch="-1"),
        lambda document: document["trials"][0]["moments"][0]["rows"][0]["numbers"].update(variance=[1, 2]),
        lambda document: document["curves"][0].update(estimator=3),
    ],
)
def test_what_was_not_written_so_is_refused(tmp_path, forge):
    file = write_theory(tmp_path, synthetic.make_theory())
    document = json.loads(file.read_text())
    del document["sha256"]
    forge(document)
    document["sha256"] = digest_of_document(document)
    file.write_text(json.dumps(document))
    assert "theory.json" in message_of(lambda: read_theory(tmp_path))


def test_a_changed_number_is_noticed(tmp_path):
    file = write_theory(tmp_path, synthetic.make_theory())
    file.write_text(file.read_text().replace("100000", "100001", 1))
    assert "checksum" in message_of(lambda: read_theory(tmp_path))


def test_numbers_in_words():
    assert str(Number(0.1234, 0.1, 0.2)) == "0.123 [0.1, 0.2]"
    assert str(Number(5.09e6, 5e6, float("inf"))) == "5.09e+06 [5.00e+06, inf]"
    assert str(Number(*[float("nan")] * 3)) == "–"


def test_verdicts_for_the_terminal():
    lines = list(verdicts(synthetic.make_theory()))
    assert lines[0] == "✓ HOLDS: Theorem 1 <b>"
    assert "✗ FAILS: Theorem 2 on trajectories" in lines


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of a run and of what was measured of it."""
    folder = tmp_path_factory.mktemp("theorems")
    synthetic.make_run(folder / "theorems" / "mac")
    write_theory(folder / "theorems", synthetic.make_theory())
    content = contents.read(find_sources([folder / "theorems"]))
    write_report(content, Recording("No video here."), folder / "out")
    return folder / "out" / "index.html"


def test_every_table_and_figure_is_written_beside_the_page(page):
    names = {file.name for file in page.parent.iterdir()}
    pictures = ("variance-trial0", "variance-sources-trial0", "variance-trial1", "variance-entropy")
    assert names >= {f"{stem}.{kind}" for stem in pictures for kind in ("png", "svg", "tex")}
    assert names >= {"claims.csv", "claims.tex", "gradients.csv", "gradients.tex"}
    rows = list(csv.DictReader((page.parent / "gradients.csv").read_text().splitlines()))
    assert len(rows) == 2 * 3 * 2 * 5
    assert float(rows[0]["variance"]) == pytest.approx(
        sum(float(rows[0][p]) for p in ("actions", "states", "trajectories"))
    )


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_the_section_shows_the_numbers_and_fits_the_window(browser, page, width, dark):
    shown = browsers.Page(browser, page, width, 900, dark)
    shown.wait_for("document.querySelectorAll('.js-plotly-plot').length === 5")
    assert shown.complaints() == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    theory = synthetic.make_theory()

    def drawn(chart):
        return dict(shown.evaluate(f"document.getElementById('{chart}').data.map(t => [t.name, t.y])"))

    for trial in (0, 1):
        shown.click(f"#theory-trial-1 label:nth-of-type({trial + 1})")
        lines = drawn("theory-variance-1")
        for name in synthetic.ENDS:
            expected = [moment.row(name, EPISODE)["variance"].value for moment in theory.trials[trial].moments]
            np.testing.assert_allclose(lines[ALGORITHMS[name].title], expected, rtol=1e-4)
    shares = shown.evaluate("document.getElementById('theory-sources-1').data.map(t => [t.name, t.x[0], t.x[4]])")
    assert shares == [
        ["which states are visited", 0.5, 0.5],
        ["which actions are taken", 0, 0.7],  # of REINFORCE, of MAC
        ["which actions are taken, and what follows", 0.7, 0],
        ["steps that come together", -0.2, -0.2],
    ]
    assert len(drawn("theory-entropy-1")) == 4
    shown.click("#theory-saving-1 label:nth-of-type(2)")
    assert len(drawn("theory-entropy-1")) == 6
    assert "Theorem 1 <b>" in shown.evaluate("document.querySelector('#theory-1').textContent")
    shown.close()


def test_measurements_alone_make_a_page(tmp_path):
    write_theory(tmp_path, synthetic.make_theory(trials=0))
    assert "1 hold, 1 fail and 1 depend on more" in mac.report(tmp_path, tmp_path / "out")[-1].read_text()

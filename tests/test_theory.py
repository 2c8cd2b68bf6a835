"""What was measured of the estimators: kept on disk, checked when read, shown on a page."""

import csv
import dataclasses
import json

import numpy as np
import pytest

import browser as browsers
import mean_actor_critic as mac
import synthetic
from helpers import assert_one_line, message_of
from mean_actor_critic.errors import MacError
from mean_actor_critic.gradients.moments import parse_batches
from mean_actor_critic.gradients.theory import EPISODE, Number, read_theory, write_theory
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.theory import chart_data, csv_rows, rivals_of, verdicts, words
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


# --- forged ----------------------------------------------------------------------------------------------------------

WRONG = (0, 10**400, 1e308, float("inf"), None, True, "١", [], {}, [0] * 20_000)


def places_in(part, path=()):
    """Every place in a document, of each list the first only."""
    yield path
    if isinstance(part, dict):
        for name, below in part.items():
            yield from places_in(below, (*path, name))
    elif isinstance(part, list) and part:
        yield from places_in(part[0], (*path, 0))


def put(document, path, value):
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


def test_whatever_is_forged_is_shown_or_refused(tmp_path):
    measured = synthetic.make_theory(1, estimators=("mac", "actor_critic"))
    short = dataclasses.replace(measured.trials[0], moments=measured.trials[0].moments[:1])
    file = write_theory(tmp_path, dataclasses.replace(measured, trials=(short,)))
    whole = file.read_text()
    places = [path for path in places_in(json.loads(whole)) if path and path != ("sha256",)]
    assert len(places) > 60
    for path in places:
        for value in WRONG:
            document = json.loads(whole)
            del document["sha256"]
            put(document, path, value)
            file.write_text(json.dumps({**document, "sha256": digest_of_document(document)}))
            try:
                forged = read_theory(tmp_path)
            except MacError as fault:
                assert_one_line(str(fault))
                continue
            for show in (chart_data, words, csv_rows, rivals_of):
                show(forged)
            list(verdicts(forged))


@pytest.mark.parametrize("actions", [0, 1])
def test_one_action_has_no_entropy_to_divide_by(tmp_path, actions):
    forged = synthetic.make_theory(1)
    one = dataclasses.replace(forged.trials[0], actions=actions)
    write_theory(tmp_path, dataclasses.replace(forged, trials=(one,)))
    assert "no whole number from 2" in message_of(lambda: read_theory(tmp_path))


@pytest.mark.parametrize("word", ["9" * 4301, "0", "100001", "٣x", "", "1.5", "-1"])
def test_a_batch_is_a_number_that_python_reads(word):
    assert "batch sizes" in message_of(lambda: parse_batches(f"1,{word}"))


def test_batches_are_as_many_as_fit_into_a_figure():
    assert parse_batches("1, 016,16,episode") == ("1", "16", "episode")
    assert "up to 20" in message_of(lambda: parse_batches(",".join(map(str, range(1, 30)))))

"""The report: in a real browser it shows the numbers of the data, whatever the runs are called."""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import browser as browsers
import mean_actor_critic as mac
import synthetic
from helpers import copy_of_tiny_run, snapshot
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import curves
from mean_actor_critic.reports.files import latex, write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.presets import SEARCH_SEEDS
from mean_actor_critic.studies.sweep import Rung, scores

pytestmark = pytest.mark.slow

MEBIBYTE = 2**20
RUN_FILES = {f"{stem}.{kind}" for stem in ("results", "learning-curves") for kind in ("csv", "tex", "png", "svg")}
SEARCH_FILES = {f"{stem}.{kind}" for stem in ("settings", "sensitivity") for kind in ("csv", "tex", "png", "svg")}
SEARCH_FILES |= {"winners.csv", "winners.tex", "grid.json"}


def make_report(folder, *paths):
    content = contents.read(find_sources(paths))
    write_report(content, Recording("No video here."), folder)
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def study(folder):
    """Runs of all five algorithms by name; trial 2 of REINFORCE has diverged."""
    runs = synthetic.make_study(folder / "study", episodes=250)
    (folder / "study" / "reinforce").rename(folder / "without divergence")
    returns = synthetic.learning("reinforce", 10, 250)
    return runs | {"reinforce": synthetic.make_run(folder / "study" / "reinforce", returns=returns,
                                                   algorithm="reinforce", diverged=(2,))}  # fmt: skip


@pytest.fixture(scope="module")
def sweep(folder):
    return synthetic.make_sweep(folder / "sweep", synthetic.GRID, (Rung(2, 30), Rung(4, 30)), ("mac", "reinforce"))


@pytest.fixture(scope="module")
def page(folder, study, sweep):
    make_report(folder / "out", folder / "study", folder / "sweep")
    return folder / "out" / "index.html"


@pytest.fixture
def visit(browser):
    """A function that opens a page; pages are closed after the test."""
    opened = []

    def open_page(file, width=1280, dark=False):
        opened.append(browsers.Page(browser, file, width, 900, dark))
        return opened[-1]

    yield open_page
    for shown in opened:
        shown.close()


@pytest.fixture
def desktop(visit, page):
    return visit(page)


def drawn(shown, chart="curves-chart"):
    """The lines of a chart by name, as drawn; bands have none."""
    traces = shown.evaluate(f"document.getElementById('{chart}').data.map(t => [t.name ?? null, t.x, t.y])")
    return {name: (np.array(x), np.array(y)) for name, x, y in traces if name}


def bands(shown):
    """Lower and upper edges of all bands, in the order of the lines."""
    edges = shown.evaluate("document.getElementById('curves-chart').data.filter(t => !t.name).map(t => t.y)")
    return [(np.array(low), np.array(high)) for low, high in zip(edges[::2], edges[1::2], strict=True)]


def table(shown, caption):
    """The table whose caption begins so: cells by row and column."""
    rows = shown.evaluate(
        f"(() => {{ const t = [...document.querySelectorAll('table')].find(t => t.caption.textContent.startsWith("
        f"{json.dumps(caption)})); return [...t.rows].map(r => [...r.cells].map(c => c.textContent)); }})()"
    )
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}


# --- it opens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_alone_without_complaints_and_fits_the_window(visit, page, width, dark):
    shown = visit(page, width, dark)
    shown.wait_for("document.querySelectorAll('.js-plotly-plot').length === 4")
    assert shown.complaints() == []
    assert shown.requests() == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.evaluate("[...document.querySelectorAll('.js-plotly-plot .main-svg')].every(s => s.clientHeight > 99)")


class References(HTMLParser):
    """What a page points at: to load, or to go to when a reader clicks."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.linked, self.policy = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = [value for name, value in attributes if name in ("src", "srcset", "href", "action", "poster", "data")]
        (self.linked if tag == "a" else self.loaded).extend(found)
        if ("http-equiv", "Content-Security-Policy") in attributes:
            self.policy = dict(attributes)["content"]


def test_nothing_on_it_is_loaded_from_elsewhere_and_it_is_small(page):
    text = page.read_text()
    assert page.stat().st_size < 10 * MEBIBYTE
    references = References(text)
    assert all(url.startswith("data:") for url in references.loaded)
    beside = {file.name for file in page.parent.iterdir()}
    assert all(url.startswith("#") or url in beside for url in references.linked)
    assert "url(" not in text.split("</style>")[0]
    assert references.policy.startswith("default-src 'none'; script-src 'sha256-")


def test_dark_and_light_differ_in_charts_too_and_printing_is_light(visit, page):
    ink = "document.getElementById('curves-chart').layout.font.color"
    width = "document.getElementById('curves-chart')._fullLayout.width"
    light, dark = visit(page), visit(page, dark=True)
    assert light.evaluate(ink) != dark.evaluate(ink)
    assert light.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    dark.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.evaluate(ink) == light.evaluate(ink)
    assert dark.evaluate(width) < 700  # what fits on paper
    dark.evaluate("dispatchEvent(new Event('afterprint'))")
    assert dark.evaluate(ink) != light.evaluate(ink)


# --- the numbers -----------------------------------------------------------------------------------------------------


def test_the_table_has_the_numbers_of_the_data(desktop, study):
    for episodes in (200, 250):
        rows = table(desktop, f"Cart Pole: mean return over {episodes} episodes")
        assert len(rows) == 5
        for name, run in study.items():
            row = rows[ALGORITHMS[name].title]
            of_trials = run.returns[:, :episodes].mean(axis=1, dtype=np.float64)
            assert row["mean"] == f"{of_trials.mean():.1f}"
            assert row["SD over trials"] == f"{of_trials.std(ddof=1):.1f}"
            assert row["IQM"].startswith(f"{stats.trim_mean(of_trials, 0.25):.1f} [")
            assert row["last 100"].startswith(
                f"{run.returns[:, episodes - 100 : episodes].mean(dtype=np.float64):.1f} ["
            )
            assert row["trials"] == ("9/10" if name == "reinforce" else "10")
            ours = study["mac"].returns[:, :episodes].mean(axis=1, dtype=np.float64)
            share = (ours[:, None] > of_trials).mean() + (ours[:, None] == of_trials).mean() / 2
            assert row["P(MAC better)"].startswith("–" if name == "mac" else f"{share:.2f} [")
            low, high = map(float, row["95 % interval"].strip("[]").split(","))
            assert low < of_trials.mean() < high
        assert rows["MAC"]["paper"] == "178.3 ± 7.6"
        means = {name: run.returns[:, :episodes].mean(axis=1, dtype=np.float64) for name, run in study.items()}
        p = {name: stats.ttest_rel(means["mac"], values).pvalue for name, values in means.items() if name != "mac"}
        for place, name in enumerate(sorted(p, key=p.get)):
            corrected = min(1, max(p[other] * (4 - i) for i, other in enumerate(sorted(p, key=p.get)[: place + 1])))
            shown = rows[ALGORITHMS[name].title]["p (Holm)"]
            assert shown == ("<0.001" if corrected < 0.001 else f"{corrected:.3f}")


def test_the_answer_comes_first_with_its_numbers(desktop, study):
    answer = desktop.evaluate("document.querySelector('main section p').textContent")
    mean = study["mac"].returns.mean(axis=1, dtype=np.float64).mean()
    assert answer.startswith(f"On Cart Pole, MAC has the highest mean return: {mean:.1f} (95 % interval ")
    assert "10 trials) over 250 episodes" in answer
    for name in study:
        assert name == "mac" or f"against {ALGORITHMS[name].title}" in answer
    assert "9/10 trials of REINFORCE" in answer
    assert "the paper’s order (" in answer
    assert answer.endswith(".")


def test_the_curves_drawn_are_those_of_the_data(desktop, study):
    lines = drawn(desktop)
    assert set(lines) == {ALGORITHMS[name].title for name in study}
    for name, run in study.items():
        x, y = lines[ALGORITHMS[name].title]
        np.testing.assert_allclose(x, np.arange(1, 251))
        np.testing.assert_allclose(y, run.returns.mean(axis=0, dtype=np.float64), rtol=1e-4)


def test_the_switches_change_what_is_drawn(desktop, study):
    returns = study["mac"].returns.astype(np.float64)
    n = len(returns)
    place = list(drawn(desktop)).index("MAC")
    low, high = bands(desktop)[place]
    half = stats.t.ppf(0.975, n - 1) * returns.std(axis=0, ddof=1) / np.sqrt(n)
    seen = returns.min(axis=0), returns.max(axis=0)  # no band goes beyond
    middle, sd = returns.mean(axis=0), returns.std(axis=0, ddof=1)
    np.testing.assert_allclose(low, np.clip(middle - half, *seen), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(high, np.clip(middle + half, *seen), rtol=1e-3, atol=1e-2)
    desktop.click("#band label:nth-of-type(2)")
    low, high = bands(desktop)[place]
    assert np.any(middle + sd > seen[1])
    np.testing.assert_allclose(low, np.clip(middle - sd, *seen), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(high, np.clip(middle + sd, *seen), rtol=1e-3, atol=1e-2)
    desktop.click("#centre label:nth-of-type(2)")
    _, middle = drawn(desktop)["MAC"]
    np.testing.assert_allclose(middle, stats.trim_mean(returns, 0.25, axis=0), rtol=1e-4)
    assert desktop.complaints() == []


def test_the_curves_can_be_drawn_by_steps(desktop, study):
    desktop.click("#unit label:nth-of-type(2)")
    lines = drawn(desktop)
    assert set(lines) == {ALGORITHMS[name].title for name in study}
    end = 0
    for name, run in study.items():
        expected = curves.by_steps(run.curves)
        x, y = lines[ALGORITHMS[name].title]
        np.testing.assert_allclose(x, expected.x, rtol=1e-4)
        np.testing.assert_allclose(y, expected.bands.mean, rtol=1e-4)
        end = max(end, expected.end)
    layout = "document.getElementById('curves-chart')._fullLayout.xaxis"
    assert desktop.evaluate(f"{layout}.range") == [1, end]
    assert desktop.evaluate(f"{layout}.title.text") == "Step"
    assert desktop.evaluate("[...document.querySelectorAll('.unit')].map(e => e.textContent)") == ["Steps", "step"]
    assert desktop.evaluate("document.getElementById('to').max") == str(end)
    assert all(name in desktop.evaluate("document.getElementById('values').textContent") for name in lines)
    desktop.evaluate("(e => { e.value = 99; e.dispatchEvent(new Event('change')); })(document.getElementById('at'))")
    mac = curves.by_steps(study["mac"].curves)
    value = mac.bands.mean[np.abs(mac.x - 99).argmin()]
    assert f"MAC {value:.1f} [" in desktop.evaluate("document.getElementById('values').textContent")
    desktop.click("#unit label:nth-of-type(1)")
    assert desktop.evaluate(f"{layout}.range") == [1, 250]
    assert len(drawn(desktop)["MAC"][0]) == 250
    assert desktop.complaints() == []


def test_the_axis_can_be_switched_with_the_keyboard(desktop):
    desktop.evaluate("document.querySelector('input[name=unit]').focus()")
    desktop.press("ArrowRight", 39)
    assert desktop.evaluate("document.querySelector('input[name=unit]:checked').value") == "steps"
    assert desktop.evaluate("document.getElementById('curves-chart')._fullLayout.xaxis.title.text") == "Step"


def test_few_trials_show_their_range_and_their_digits_on_the_charts(visit, tmp_path):
    values = np.array([[-0.75], [1.25]]) + np.zeros((2, 4))
    synthetic.make_run(tmp_path / "run", returns=values)
    make_report(tmp_path / "out", tmp_path / "run")
    shown = visit(tmp_path / "out" / "index.html")
    ((low, high),) = bands(shown)
    assert (set(low), set(high)) == ({-0.75}, {1.25})
    words = "MAC 0.250 (range -0.750 to 1.250)"
    assert shown.evaluate("document.getElementById('values').textContent") == words
    point = shown.evaluate(
        "(t => [t.customdata[0], t.hovertemplate])(document.getElementById('results-chart').data[0])"
    )
    assert point[0] == " (range -0.750 to 1.250)"
    assert "%{x:.3f}" in point[1]
    shown.click("#band label:nth-of-type(2)")
    ((low, high),) = bands(shown)  # the mean less its SD lies below all that was seen
    assert (set(low), set(high)) == ({-0.75}, {1.25})
    assert shown.complaints() == []


def test_the_bands_of_interquartile_means_hold_the_truth_as_often_as_they_say():
    random = np.random.default_rng(0)
    found = [curves.by_episodes(random.normal(0, 1, (20, 300))).bands for _ in range(40)]
    for low, high in (("mean_low", "mean_high"), ("iqm_low", "iqm_high")):
        held = np.mean([(getattr(bands, low) < 0) & (getattr(bands, high) > 0) for bands in found])
        assert held == pytest.approx(0.95, abs=0.015)


# --- using it --------------------------------------------------------------------------------------------------------


def test_a_click_on_a_name_hides_its_line_and_another_shows_it_again(desktop):
    button = "#curves-legend button:nth-of-type(2)"
    name = desktop.evaluate(f"document.querySelector('{button}').textContent")
    desktop.click(button)
    assert name not in drawn(desktop)
    assert len(drawn(desktop)) == len(bands(desktop)) == 4
    assert desktop.evaluate(f"document.querySelector('{button}').getAttribute('aria-pressed')") == "false"
    desktop.click(button)
    assert name in drawn(desktop)


def test_everything_can_be_done_with_the_keyboard(desktop):
    desktop.press("Tab", 9)
    assert desktop.evaluate("document.activeElement.className") == "skip"
    desktop.press("Enter", 13)
    assert desktop.wait_for("document.activeElement.id === 'answer'")
    seen = []
    for _ in range(60):
        desktop.press("Tab", 9)
        seen.append(desktop.evaluate("(e => e.id || e.name || e.textContent)(document.activeElement)"))
        if seen[-1] == "REINFORCE":
            break
    assert {"budget", "unit", "centre", "band", "from", "to", "whole", "MAC"} <= set(seen)
    desktop.press(" ", 32)
    assert "REINFORCE" not in drawn(desktop)
    assert desktop.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_pointing_at_the_curves_shows_the_numbers_there(desktop, study):
    _, y = desktop.place("#curves-chart")
    episode = 100
    left = desktop.evaluate(
        "(() => { const c = document.getElementById('curves-chart'), l = c._fullLayout;"
        f" return c.getBoundingClientRect().x + l._size.l + l.xaxis.d2p({episode}); }})()"
    )
    desktop.point_at(left, y)
    text = desktop.wait_for("document.querySelector('#curves-chart .hoverlayer').textContent")
    for name, run in study.items():
        returns = run.returns[:, episode - 1].astype(np.float64)
        assert f"{returns.mean():.1f} [" in text.replace("−", "-"), (name, text)


def test_values_can_be_read_without_a_pointer(desktop, study):
    desktop.evaluate("(e => { e.value = 50; e.dispatchEvent(new Event('change')); })(document.getElementById('at'))")
    words = desktop.evaluate("document.getElementById('values').textContent")
    assert f"MAC {study['mac'].returns[:, 49].mean(dtype=np.float64):.1f} [" in words


def test_the_episode_axis_can_be_zoomed_by_hand_and_by_numbers(desktop):
    span = "document.getElementById('curves-chart')._fullLayout.xaxis.range"
    x, y = desktop.place("#curves-chart")
    desktop.drag((x - 100, y), (x + 100, y))
    first, last = desktop.wait_for(f"{span}[0] > 2 && {span}")
    assert 1 < first < last < 250
    assert int(desktop.evaluate("document.getElementById('from').value")) == round(first)
    desktop.evaluate("(e => { e.value = 20; e.dispatchEvent(new Event('change')); })(document.getElementById('from'))")
    assert desktop.evaluate(f"{span}[0]") == 20
    desktop.click("#whole")
    assert desktop.evaluate(span) == [1, 250]


def test_the_scores_can_be_seen_at_each_number_of_episodes(desktop, study):
    for place, episodes in ((1, 200), (2, 250)):
        desktop.click(f"#budget label:nth-of-type({place})")
        x, _ = drawn(desktop, "results-chart")["MAC"]
        assert x[0] == pytest.approx(study["mac"].returns[:, :episodes].mean(axis=1, dtype=np.float64).mean(), rel=1e-4)


def test_the_search_shows_every_setting_and_who_won(desktop, sweep):
    outcomes = [outcome for outcome in sweep.outcomes() if outcome.algorithm == "reinforce"]
    place = desktop.evaluate(
        "[...document.querySelectorAll('#map-1 input')].findIndex(i => i.value === 'reinforce') + 1"
    )
    desktop.click(f"#map-1 label:nth-of-type({place})")
    drawn_scores = desktop.evaluate("document.getElementById('map-chart-1').data[0].z.flat()")
    expected = [scores(outcome.returns, "asymptotic").mean() for outcome in outcomes]
    assert len(drawn_scores) == 18
    np.testing.assert_allclose(sorted(drawn_scores), sorted(expected), rtol=1e-4)
    winner = table(desktop, "Best by asymptotic")["MAC"]
    won = sweep.winners()["mac"]
    assert winner["asymptotic"] == f"{scores(won.returns, 'asymptotic').mean():.1f}"
    assert winner["trials"] == ("4" if not any(won.diverged_at) else f"{4 - np.sum(won.diverged_at > 0)}/4")
    assert winner["episodes"] == "30"
    assert f"lr={won.settings['actor_lr']:g}" in winner["settings"]
    assert "% of the episodes saved by stopping early" in desktop.evaluate("document.body.textContent")
    x, share = drawn(desktop, "shares-chart-1")["REINFORCE"]
    np.testing.assert_allclose(x, sorted(expected), rtol=1e-4)
    np.testing.assert_allclose(share, [np.mean(np.array(expected) >= x) for x in sorted(expected)], rtol=1e-4)
    desktop.click("#shares-legend-1 button:nth-of-type(1)")
    assert len(drawn(desktop, "shares-chart-1")) == 1


def test_the_share_of_settings_that_reach_a_score_counts_equal_ones_once():
    values = np.array([-500.0] * 700 + list(range(336)))
    score, share = contents.shares(values)
    assert (score[0], share[0]) == (-500, 1)
    assert len(score) <= contents.MOST_POINTS
    np.testing.assert_allclose(share, [np.mean(values >= x) for x in score])


# --- whoever made the runs -------------------------------------------------------------------------------------------

NAMES = ("<script>alert(1)<", "script>"), ("=HYPERLINK(1)", "$\\bad_{%&#}$"), ("%{x} {{ 7 * 7 }}", "</script><b>x")


def test_names_are_shown_as_text_and_never_become_files(visit, tmp_path, monkeypatch):
    away = tmp_path / "work" / "deeper"
    away.mkdir(parents=True)
    monkeypatch.chdir(away)
    paths = [Path("..") / ".." / Path(*parts) for parts in NAMES]
    for number, path in enumerate(paths):
        environment = '<img src=x onerror="alert(2)">'
        synthetic.make_run(path, returns=synthetic.learning("mac", 3, 20, number), environment=environment)
    before = snapshot(tmp_path)
    make_report(away / "out", *paths)
    after = snapshot(tmp_path)
    written = set(after) - set(before)
    assert {name for name in written if not name.startswith("work/deeper/out")} == set()
    assert {file.name for file in (away / "out").iterdir()} == RUN_FILES | {"index.html", "files.json"}
    assert {name: after[name] for name in before} == before
    shown = visit(away / "out" / "index.html", 360)
    assert shown.complaints() == []
    text = shown.evaluate("document.body.innerText")
    for path in paths:
        assert str(path) in text
        assert f"MAC ({path})" in shown.evaluate("document.getElementById('curves-legend').textContent")
    assert '<img src=x onerror="alert(2)">' in shown.evaluate("document.querySelector('h1').textContent")
    assert shown.evaluate("document.querySelectorAll('img, b:not(.js-plotly-plot b), main script').length") == 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360
    names = shown.evaluate("document.getElementById('results-chart').data.map(t => t.name)")
    assert not any("<" in name for name in names)


def test_cells_of_tables_for_spreadsheets_are_no_formulas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("=1+2", "@x", "+3", "-4"):
        synthetic.make_run(Path(name), returns=synthetic.learning("mac", 3, 20))
    make_report(tmp_path / "out", "=1+2", "@x", "+3", "-4")
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {"'=1+2", "'@x", "+3", "-4"}  # the last two are numbers
    assert all(float(row["mean"]) > 0 for row in rows)


def test_latex_is_escaped(tmp_path, page):
    assert latex("a_b & 5 % $x$ #1 {y} ~^\\") == (
        r"a\_b \& 5 \% \$x\$ \#1 \{y\} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    assert latex("one\n\ntwo") == "one two"
    written = (page.parent / "results.tex").read_text()
    assert "\\toprule" in written
    assert r"178.3 $\pm$ 7.6" in written
    for file in page.parent.glob("*.tex"):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("%") and not line.endswith("{%")]
        assert not re.search(r"(?<!\\)[_#%]", "\n".join(lines)), file


def test_every_table_and_figure_is_written_beside_the_page(page):
    assert {file.name for file in page.parent.iterdir()} == RUN_FILES | SEARCH_FILES | {"index.html", "files.json"}
    for file in page.parent.iterdir():
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG") == (file.suffix == ".png")
        assert (b"<svg" in content[:2000]) == (file.suffix == ".svg")


def test_the_same_data_make_the_same_files(folder, page):
    make_report(folder / "again", folder / "study", folder / "sweep")
    assert snapshot(folder / "again") == snapshot(page.parent)


def test_the_protocol_says_where_everything_came_from(desktop, folder, study, sweep):
    rows = table(desktop, "What this page was made from")
    for run in study.values():
        assert rows[str(run.path)]["digest"] == run.digest[:16]
    assert rows[str(folder / "sweep")]["digest"] == sweep.results_digest[:16]
    assert table(desktop, "What the numbers depend on")["jax"]["version"] == "0.10.2"
    text = desktop.evaluate("document.getElementById('protocol').textContent")
    assert f"seed {SEARCH_SEEDS.start}" in text
    assert "seed 0, trials 0 to 9" in text
    assert "mac sweep cart-pole --algorithm mac reinforce --grid grid.json --trials 4 --episodes 30" in text


# --- the video -------------------------------------------------------------------------------------------------------


def test_the_best_agent_plays_on_the_page(visit, tmp_path):
    run = copy_of_tiny_run(tmp_path).run
    assert mac.report(run, tmp_path / "out")[-1] == tmp_path / "out" / "index.html"
    shown = visit(tmp_path / "out" / "index.html")
    assert shown.wait_for("document.querySelector('video').readyState >= 1")
    assert shown.evaluate("document.querySelector('video').duration") > 0
    assert "MAC, trial " in shown.evaluate("document.querySelector('video + figcaption').textContent")
    assert shown.complaints() == []


def test_a_page_without_a_video_says_why(tmp_path):
    run = synthetic.make_run(tmp_path / "run")  # with curves, but without networks
    assert "No video: " in mac.report(run, tmp_path / "out")[-1].read_text()
    assert "No video was asked for." in mac.report(run, tmp_path / "out", video=False)[-1].read_text()

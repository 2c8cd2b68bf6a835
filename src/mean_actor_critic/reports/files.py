"""A report as files: the page, and its tables and figures for papers. Names come from a list, never from runs."""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mean_actor_critic.files import write_whole
from mean_actor_critic.gradients.theory import Theory
from mean_actor_critic.reports import plots, variants
from mean_actor_critic.reports.content import Content, Search
from mean_actor_critic.reports.digits import exact
from mean_actor_critic.reports.entries import Entry
from mean_actor_critic.reports.page import Recording, write_page
from mean_actor_critic.reports.search import is_papers_grid, winners_sheet, write_summary
from mean_actor_critic.reports.sheets import Sheet
from mean_actor_critic.reports.tables import evaluation_rows, results_rows, results_sheet, table_2, write_csv
from mean_actor_critic.reports.tasks import groups_of
from mean_actor_critic.reports.theory import batch_in_words, claims_sheet, csv_rows, moments_sheet, trial_in_words
from mean_actor_critic.reports.written import clear_and_list
from mean_actor_critic.runs.store import make_folder
from mean_actor_critic.studies.sweep import RULES

PAGE = "index.html"


def write_report(content: Content, recording: Recording, folder: Path) -> list[Path]:
    """Write a report into a folder; returns the files, the page last.

    What a report wrote there before is replaced or removed, unless it was changed since.

    Raises:
        InputError: the folder cannot be made.
        DiskError: the disk refuses.
    """
    make_folder(folder)
    files = write_results(content, folder)
    grids = []
    for number, search in enumerate(content.searches, start=1):
        suffix = f"-{number}" if len(content.searches) > 1 else ""
        files += _write_search(content.title, search, folder, suffix)
        grids.append(f"grid{suffix}.json")
        if not is_papers_grid(search.plan):
            files.append(_write_text(folder / grids[-1], json.dumps(search.plan.grid.to_json(), indent=1)))
    for number, source in enumerate(content.sources.theories, start=1):
        suffix = f"-{number}" if len(content.sources.theories) > 1 else ""
        files += write_theory_files(source.theory, folder, suffix)
    page = folder / PAGE
    write_page(content, recording, [file.name for file in files], grids, page)
    return [*files, clear_and_list(folder, [*files, page]), page]


def write_results(content: Content, folder: Path) -> list[Path]:
    """Write the tables and figures of the runs of a report into a folder; returns the files."""
    if not content.entries:
        return []
    return (_write_games if content.games else _write_tasks if content.tasks else _write_runs)(content, folder)


def _write_runs(content: Content, folder: Path) -> list[Path]:
    over = f"mean return over {content.answer_at} episodes"
    sheets = [results_sheet(content, episodes) for episodes in content.results]
    results, curves = (_names(folder, stem) for stem in ("results", "learning-curves"))
    write_csv(results["csv"], results_rows(content))
    _write_text(results["tex"], "\n".join(map(latex_table, sheets)))
    plots.scores(content.answer, f"{content.title}: {over}", results["png"], results["svg"])
    write_csv(curves["csv"], curve_rows(content.entries))
    caption = curves_title(content)
    _write_text(curves["tex"], latex_figure(curves["png"].name, caption))
    plots.learning_curves(content.entries, caption, curves["png"], curves["svg"])
    return [*results.values(), *curves.values()]


def _write_games(content: Content, folder: Path) -> list[Path]:
    table = {kind: folder / f"table-2.{kind}" for kind in ("csv", "tex")}
    curves = {kind: folder / f"curves.{kind}" for kind in ("csv", "png", "svg")}
    sheet = table_2(content.games)
    write_csv(table["csv"], [sheet.columns, *sheet.rows])
    _write_text(table["tex"], latex_table(sheet))
    write_csv(curves["csv"], evaluation_rows(content.games))
    plots.curves_on_games(content.games, curves["png"], curves["svg"])
    return [*table.values(), *curves.values()]


def _write_tasks(content: Content, folder: Path) -> list[Path]:
    table = {kind: folder / f"tasks.{kind}" for kind in ("csv", "tex")}
    write_csv(table["csv"], variants.csv_rows(content.tasks))
    sheets = [variants.twins_sheet(content.tasks), variants.parts_sheet(content.tasks)]
    _write_text(table["tex"], "\n".join(latex_table(sheet) for sheet in sheets if sheet.rows))
    curves = folder / "curves.csv"
    header = curve_rows([])[0]
    rows = [[on.title, *row] for on in content.tasks for row in curve_rows([r.entry for r in on.results])[1:]]
    write_csv(curves, [["task", *header], *rows])
    evaluations = folder / "evaluations.csv"
    write_csv(evaluations, variants.evaluation_rows(content.tasks))
    files = [*table.values(), curves, evaluations]
    for group in groups_of(content.tasks):
        pictures = [folder / f"curves-{group}.{kind}" for kind in ("png", "svg")]
        plots.curves_on_tasks(content.tasks, group, *pictures)
        files += pictures
    return files


def curves_title(content: Content) -> str:
    """Of the figure of learning curves: how many trials there are, and what the bands are."""
    trials = " or ".join(map(str, sorted({entry.curve.n for entry in content.entries})))
    kinds = {entry.curve.is_range for entry in content.entries if entry.curve.n > 1}
    bands = {
        (False,): " with 95 % bands",
        (True,): " with their range",
        (False, True): " with 95 % bands or their range",
    }
    return f"{content.title}: mean of {trials} trials{bands.get(tuple(sorted(kinds)), '')}"


def _write_search(title: str, search: Search, folder: Path, suffix: str) -> list[Path]:
    settings, sensitivity = (_names(folder, stem + suffix) for stem in ("settings", "sensitivity"))
    winners = {kind: folder / f"winners{suffix}.{kind}" for kind in ("csv", "tex")}
    rule = RULES[search.plan.rule]
    write_summary(search.sweep, settings["csv"])
    _write_text(settings["tex"], latex_figure(settings["png"].name, f"{title}: {rule}, of every setting"))
    plots.heat_maps(search, f"{title}: {rule}", settings["png"], settings["svg"])
    rows: list[list[Any]] = [["algorithm", search.plan.rule, "share_of_settings_that_reach_it"]]
    for algorithm, (values, share) in search.shares.items():
        rows += [[algorithm, exact(x), exact(y)] for x, y in zip(values, share, strict=True)]
    write_csv(sensitivity["csv"], rows)
    caption = f"{title}: share of settings that reach a score ({rule})"
    _write_text(sensitivity["tex"], latex_figure(sensitivity["png"].name, caption))
    plots.sensitivity(search, f"{title}: {rule}", sensitivity["png"], sensitivity["svg"])
    sheet = winners_sheet(search.sweep)
    write_csv(winners["csv"], [sheet.columns, *sheet.rows])
    _write_text(winners["tex"], latex_table(sheet))
    return [*settings.values(), *sensitivity.values(), *winners.values()]


def write_theory_files(theory: Theory, folder: Path, suffix: str = "") -> list[Path]:
    """Write what was measured of the estimators: claims and numbers as tables, and figures; returns the files."""
    claims = {kind: folder / f"claims{suffix}.{kind}" for kind in ("csv", "tex")}
    sheet = claims_sheet(theory.claims)
    write_csv(claims["csv"], [["claim", "verdict", "exactly", "in_networks"], *sheet.rows])
    _write_text(claims["tex"], latex_table(sheet))
    files = [*claims.values()]
    if theory.trials:
        gradients = {kind: folder / f"gradients{suffix}.{kind}" for kind in ("csv", "tex")}
        write_csv(gradients["csv"], csv_rows(theory))
        sheets = [moments_sheet(trial, batch) for trial in theory.trials for batch in trial.batches]
        _write_text(gradients["tex"], "\n".join(map(latex_table, sheets)))
        files += gradients.values()
    several = len(theory.trials) > 1
    for trial in theory.trials:
        which, name = f"{suffix}-trial{trial.trial}" if several else suffix, trial_in_words(trial)
        last = trial.batches[-1]
        for stem, caption, draw in (
            ("variance", f"{name}: variance through training", partial(plots.variances, trial, trial.batches)),
            (
                "variance-sources",
                f"{name}: where the variance comes from, {batch_in_words(last)}",
                partial(plots.variance_sources, trial, last),
            ),
        ):
            picture = [folder / f"{stem}{which}.{kind}" for kind in ("png", "svg")]
            draw(caption, *picture)
            files += [*picture, _write_text(folder / f"{stem}{which}.tex", latex_figure(picture[0].name, caption))]
    if theory.curves:
        picture = [folder / f"variance-entropy{suffix}.{kind}" for kind in ("png", "svg")]
        caption = "Variance that MAC saves against entropy"
        plots.entropy_curves(theory, caption, *picture)
        text = _write_text(folder / f"variance-entropy{suffix}.tex", latex_figure(picture[0].name, caption))
        files += [*picture, text]
    return files


def _names(folder: Path, stem: str) -> dict[str, Path]:
    return {kind: folder / f"{stem}.{kind}" for kind in ("csv", "tex", "png", "svg")}


def curve_rows(entries: Sequence[Entry]) -> list[list[Any]]:
    """The learning curves as they are drawn, of training and evaluations; `at` is the middle of a point.

    Of evaluations of one trial, everything is over the episodes of each of them.
    """
    columns = ("mean", "sd", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high")
    rows: list[list[Any]] = [["label", "algorithm", "of", "unit", "at", "trials", *columns]]
    for entry in entries:
        for curve in entry.curves.values():
            numbers = zip(*(getattr(curve.bands, column) for column in columns), strict=True)
            for at, of_point in zip(curve.x, numbers, strict=True):
                names = [entry.label, entry.algorithm, curve.of, curve.unit]
                rows.append([*names, exact(at), entry.run.experiment.trials, *map(exact, of_point)])
    return rows


def _write_text(file: Path, text: str) -> Path:
    write_whole(file, text.encode(errors="replace"))
    return file


# --- LaTeX -----------------------------------------------------------------------------------------------------------

_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}",
    "±": r"$\pm$", "×": r"$\times$", "–": "--", "’": "'", "�": "?",
}  # fmt: skip


def latex(text: str) -> str:
    """Text as LaTeX prints it."""
    return re.sub(r"\s+", " ", "".join(_SPECIAL.get(sign, sign) for sign in text))


def latex_table(sheet: Sheet) -> str:
    """A table for a paper, as wide as it is or as the text, whichever is less."""
    alignment = "".join("l" if i < sheet.left or name in sheet.wide else "r" for i, name in enumerate(sheet.columns))
    lines = [_latex_row(row) for row in (sheet.columns, *sheet.rows)]
    body = "\n".join(["\\toprule", lines[0], "\\midrule", *lines[1:], "\\bottomrule"])
    return (
        f"% \\usepackage{{booktabs,graphicx}}\n\\begin{{table}}\n\\centering\n\\caption{{{latex(sheet.title)}}}\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{{alignment}}}\n{body}\n\\end{{tabular}}}}\n\\end{{table}}\n"
    )


def latex_figure(picture: str, caption: str) -> str:
    """A figure for a paper."""
    return (
        "% \\usepackage{graphicx}\n\\begin{figure}\n\\centering\n"
        f"\\includegraphics[width=\\linewidth]{{{picture}}}\n\\caption{{{latex(caption)}}}\n\\end{{figure}}\n"
    )


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex, cells)) + r" \\"

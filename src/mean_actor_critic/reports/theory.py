"""What was measured of the estimators, as sheets, rows and data for charts."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from mean_actor_critic.gradients.theory import EPISODE, STATISTICS, UPDATE, Claim, Moment, Number, Row, Theory, Trial
from mean_actor_critic.reports.digits import exact
from mean_actor_critic.reports.sheets import Sheet
from mean_actor_critic.reports.tables import terminal_table
from mean_actor_critic.spec.algorithms import algorithm_of

SIGNS = {"holds": "✓", "fails": "✗", "depends": "~", "not measured": "–"}
# what a variance comes from, in the words of charts
SOURCES = {
    "states": "which states are visited",
    "actions": "which actions are taken",
    "returns": "which actions are taken, and what follows",
    "trajectories": "steps that come together",
}


def batch_in_words(batch: str) -> str:
    """What estimates are made from."""
    words = {"1": "one state", EPISODE: "a whole episode", UPDATE: "an episode’s mean"}
    return words.get(batch, f"{batch} states")


def trial_in_words(trial: Trial) -> str:
    """Which networks were looked at."""
    return f"{trial.environment}, {algorithm_of(trial.algorithm).title}, trial {trial.trial}"


def verdicts(theory: Theory) -> Iterator[str]:
    """Each claim with its verdict and evidence, for the terminal."""
    for claim in theory.claims:
        yield f"{SIGNS[claim.verdict]} {claim.verdict.upper()}: {claim.name}"
        if claim.exact:
            yield f"    exactly: {claim.exact}"
        if claim.deep:
            yield f"    in networks: {claim.deep}"


def claims_sheet(claims: Sequence[Claim]) -> Sheet:
    """The claims as a table."""
    rows = [[c.name, f"{SIGNS[c.verdict]} {c.verdict}", c.exact or "–", c.deep or "–"] for c in claims]
    return Sheet("What the paper claims, and what was found", ["Claim", "", "exactly", "in networks"], rows, left=4)


def estimators_of(trial: Trial, batch: str | None = None) -> list[str]:
    """The estimators that were measured, for one batch or for any, in the order of their rows."""
    rows = trial.moments[0].rows
    return list(dict.fromkeys(row.estimator for row in rows if batch in (None, row.batch)))


def rivals_of(theory: Theory) -> list[str]:
    """The measured estimators whose variance has a part that MAC does without: those that look at a critic."""
    measured = dict.fromkeys(name for trial in theory.trials for name in estimators_of(trial))
    return [name for name in measured if name != "mac" and "critic" in algorithm_of(name).parts]


def moments_sheet(trial: Trial, batch: str) -> Sheet:
    """Every estimator at every moment, for one batch."""
    columns = ["Estimator", "episode", "entropy", "variance", "of MAC’s", "signal/noise", "direction", "cosine", "bias"]
    rows = [
        [
            algorithm_of(row.estimator).title,
            str(moment.episode),
            f"{moment.entropy.value:.2f}",
            *(str(row[name]) for name in ("variance", "ratio", "snr", "direction", "cosine", "bias")),
        ]
        for moment in trial.moments
        for row in moment.rows
        if row.batch == batch
    ]
    title = f"{trial_in_words(trial)}: estimates from {batch_in_words(batch)}"
    return Sheet(title, columns, rows)


def tables(theory: Theory) -> list[Table]:
    """For the terminal: two tables for each trial and batch, because one would be too wide."""
    return [
        terminal_table(moments_sheet(trial, batch).only("Estimator", "episode", *columns))
        for trial in theory.trials
        for batch in trial.batches
        for columns in (("variance", "of MAC’s", "signal/noise"), ("entropy", "direction", "cosine", "bias"))
    ]


def csv_rows(theory: Theory) -> list[list[Any]]:
    """Every number, with its interval, a row for each moment, estimator and batch."""
    numbers = [name for statistic in STATISTICS for name in (statistic, f"{statistic}_low", f"{statistic}_high")]
    header = ["environment", "algorithm", "trial", "episode", "entropy", "mean_return", "steps", "episodes"]
    rows: list[list[Any]] = [[*header, "estimator", "batch", *numbers]]
    for trial in theory.trials:
        for moment in trial.moments:
            words = [trial.environment, trial.algorithm, trial.trial, moment.episode]
            words += [exact(moment.entropy.value), exact(moment.score.value), moment.steps, moment.episodes]
            rows += [
                [*words, row.estimator, row.batch, *(exact(x) for name in STATISTICS for x in row[name])]
                for row in moment.rows
            ]
    return rows


def sources_of(row: Row) -> dict[str, float]:
    """The parts of a variance as shares of it, in the order of `SOURCES`.

    With returns, which action is taken and what follows are one thing: to tell them apart takes a critic, and all that
    is wrong with it would be seen here.
    """
    whole = row["variance"].value
    parts = {part: row[part].value / whole if whole > 0 else 0.0 for part in SOURCES}
    if "critic" not in algorithm_of(row.estimator).parts:
        parts["returns"] += parts["actions"]
        parts["actions"] = 0.0
    return parts


def saved(row: Row) -> float:
    """The share of a variance that is due to actions, and that MAC does without."""
    return sources_of(row)["actions"]


def entropy_points(theory: Theory, rival: str) -> tuple[list[float], list[float]]:
    """Entropies in networks, as shares of the most, and what MAC saves there of the variance of independent states."""
    found = [
        (moment.entropy.value / math.log(trial.actions), saved(row))
        for trial in theory.trials
        for moment in trial.moments
        for row in moment.rows
        if row.estimator == rival and row.batch.isdecimal()
    ]
    # how many states are in a batch does not matter here
    different = list(dict.fromkeys((round(x, 9), round(y, 9)) for x, y in found))
    return [x for x, _ in different], [y for _, y in different]


# --- for the page ----------------------------------------------------------------------------------------------------


def chart_data(theory: Theory) -> dict[str, Any]:
    """All that the charts show."""
    measured = dict.fromkeys(name for trial in theory.trials for name in estimators_of(trial))
    return {
        "trials": [_trial_data(trial) for trial in theory.trials],
        "curves": [
            {
                "estimator": curve.estimator,
                "label": f"{algorithm_of(curve.estimator).title}, {curve.actions} actions",
                "actions": curve.actions,
                **{name: list(map(_short, getattr(curve, name))) for name in ("entropy", "saved", "low", "high")},
                "amount": list(map(_short, curve.amount)),
            }
            for curve in theory.curves
        ],
        "points": [
            {
                "estimator": rival,
                "label": f"{algorithm_of(rival).title}, networks",
                "entropy": list(map(_short, x)),
                "saved": list(map(_short, y)),
            }
            for rival in rivals_of(theory)
            for x, y in [entropy_points(theory, rival)]
        ],
        # lists, whose order lasts
        "estimators": [{"algorithm": name, "label": algorithm_of(name).title} for name in measured],
        "parts": [{"part": part, "label": label} for part, label in SOURCES.items()],
    }


def _trial_data(trial: Trial) -> dict[str, Any]:
    return {
        "episode": [moment.episode for moment in trial.moments],
        "variance": {
            batch: {
                name: [_triple(m.row(name, batch)["variance"]) for m in trial.moments]
                for name in estimators_of(trial, batch)
            }
            for batch in trial.batches
        },
        "sources": {
            batch: {name: [_shares(m.row(name, batch)) for m in trial.moments] for name in estimators_of(trial, batch)}
            for batch in trial.batches
        },
    }


def _triple(number: Number) -> list[float | None]:
    return [_short(value) for value in number]


def _shares(row: Row) -> list[float | None]:
    return [_short(share) for share in sources_of(row).values()]


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def words(theory: Theory) -> dict[str, Any]:
    """What the page says about it."""
    trials = theory.trials
    batches = trials[0].batches if trials else []
    last: Moment | None = trials[0].moments[-1] if trials else None
    shown = EPISODE if EPISODE in batches else (batches[0] if batches else "")
    alternative = ""
    if last:
        parts = [f"{algorithm_of(row.estimator).title} {row['variance']}" for row in last.rows if row.batch == shown]
        alternative = f"Variance by episode of training. At the end, from {batch_in_words(shown)}: {', '.join(parts)}."
    return {
        "claims": [(SIGNS[claim.verdict], claim) for claim in theory.claims],
        "trials": [(str(i), trial_in_words(trial)) for i, trial in enumerate(trials)],
        "batches": [(batch, batch_in_words(batch)) for batch in batches],
        "shown": shown,
        "moments": [(str(i), f"episode {moment.episode}") for i, moment in enumerate(trials[0].moments)]
        if trials
        else [],
        "middle": str(len(trials[0].moments) // 2) if trials else "0",
        "curves": bool(theory.curves),
        "sheets": [moments_sheet(trial, shown) for trial in trials],
        "alt": alternative,
        "method": _method(theory),
        "command": theory.command,
    }


def _method(theory: Theory) -> list[str]:
    lines = []
    for trial in theory.trials[:1]:
        steps, episodes = (min(getattr(m, name) for m in trial.moments) for name in ("steps", "episodes"))
        lines.append(
            f"Networks were frozen and played at least {episodes} episodes and {steps} steps at each moment. "
            "Independent states are drawn from all steps. A whole episode is the sum over its steps divided by the "
            "expected length, so that both estimate the same gradient; later states are not discounted, as in "
            "training. An episode’s mean divides by its own length: the step that training takes."
        )
        lines.append(
            "Variance is that of all parameters together. Its part due to actions is computed in closed form over all "
            "actions; that due to states is what is left when actions are averaged out; estimators by returns also "
            "have what returns add beyond the critic’s values in their place; and whole episodes what it adds or takes "
            "away that their steps come together. Bias and direction (a cosine) are those of an estimator’s mean, "
            "against a reference gradient of all steps, which is unbiased and whose returns end at the time limit; "
            "bias is in units of the longer of that and MAC’s mean. The cosine is the mean of single estimates’. "
            "There is neither where the reference may be nothing but noise. "
            f"Intervals of 95 % resample episodes, or the {trial.replicates} single estimates."
        )
    if theory.problems:
        lines.append(
            f"Exactly: {theory.problems} random problems of up to 5 states, 3 actions and 5 steps, with true, biased "
            "and noisy critics, everything that can happen taken into account, in float64."
        )
    return lines

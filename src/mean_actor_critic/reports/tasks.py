"""Runs on several tasks as numbers: what each variant came to at its evaluations, and how MAC compares with it.

A variant is an algorithm with its usual settings, or with one of them changed. MAC with the usual settings is what all
others on the same task are compared with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.reports.curves import Curve, curves_of
from mean_actor_critic.reports.digits import decimals_of
from mean_actor_critic.reports.entries import Entry, share_random_numbers, trials_in_words
from mean_actor_critic.reports.sources import RunSource, place_of, title_of_task
from mean_actor_critic.reports.statistics import (
    Array,
    Difference,
    Estimate,
    Summary,
    differences,
    median_episodes,
    probability_of_improvement,
    summarise,
)
from mean_actor_critic.runs.run import EVALUATIONS, GREEDY, TRAINING, Run
from mean_actor_critic.spec import modern
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.experiment import Experiment, settings_for_engine
from mean_actor_critic.spec.learners import STEPS
from mean_actor_critic.spec.modern import task_of
from mean_actor_critic.spec.presets import start_from

TWINS, PARTS = "twins", "parts"  # groups of runs
AHEAD, EVEN, BEHIND = "ahead", "no difference", "behind"  # what an interval says of MAC


class Measure(NamedTuple):
    """What a trial is judged by."""

    title: str
    greedy: bool  # evaluations by the most probable actions, not by sampled ones
    at_end: bool  # the last evaluation, not the mean over all of them

    def of(self, run: Run, evaluated: int) -> Array:
        """The number of each trial of a run [trials], from its first so many evaluations."""
        means = run.evaluations.greedy_means if self.greedy else run.evaluations.means
        assert means is not None
        shown = np.asarray(means[:, :evaluated], np.float64)
        return shown[:, -1] if self.at_end else shown.mean(axis=1)


# The first that there is decides.
MEASURES = (
    Measure("greedy, over training", greedy=True, at_end=False),
    Measure("greedy, at the end", greedy=True, at_end=True),
    Measure("sampled, over training", greedy=False, at_end=False),
    Measure("sampled, at the end", greedy=False, at_end=True),
)


class Comparison(NamedTuple):
    """MAC against a variant, trial against trial."""

    ahead: Difference  # MAC's mean less the variant's
    better: Estimate  # probability that a trial of MAC is better than one of the variant

    @property
    def verdict(self) -> str:
        """AHEAD or BEHIND, where the whole interval of the difference of means lies on that side; else EVEN."""
        if self.ahead.low > 0:
            return AHEAD
        return BEHIND if self.ahead.high < 0 else EVEN


class TaskResult(NamedTuple):
    """What a variant came to on a task."""

    entry: Entry
    changed: str  # the setting in which it differs from the usual ones, in words; no text if it does not
    values: Sequence[Array]  # [trials] by measure
    summaries: Sequence[Summary]  # of these
    against: Sequence[Comparison]  # MAC with this, by measure; empty for MAC itself, and where there is none
    to_goal: Estimate | None  # median agent steps to the first evaluation at the goal, inf for never
    reached: int  # trials that ever were there

    @property
    def groups(self) -> list[str]:
        """What it is shown among: the twins; or MAC and what is left of it with a setting changed."""
        beside_parts = self.changed or self.entry.algorithm == "mac"
        return [*([] if self.changed else [TWINS]), *([PARTS] if beside_parts else [])]

    @property
    def diverged(self) -> int:
        """Trials that diverged."""
        return int(np.sum(self.entry.run.diverged_at > 0))

    @property
    def trials_in_words(self) -> str:
        """How many, and if some diverged, how many did not: 97/100."""
        return trials_in_words(self.entry.run.experiment.trials, self.diverged)


class OnTask(NamedTuple):
    """All runs on one task."""

    title: str
    goal: float | None
    measures: Sequence[Measure]  # that all runs of the report have
    results: list[TaskResult]  # MAC, its twins, and MAC with something changed
    in_common: list[str]  # settings of all runs of the report that are not the usual ones

    @property
    def mac(self) -> TaskResult | None:
        """What the others are compared with."""
        return next((result for result in self.twins if result.entry.algorithm == "mac"), None)

    @property
    def twins(self) -> list[TaskResult]:
        """The algorithms as they usually are."""
        return [result for result in self.results if not result.changed]

    @property
    def parts(self) -> list[TaskResult]:
        """MAC, or what else there is, with something changed."""
        return [result for result in self.results if result.changed]

    @property
    def ranked(self) -> list[TaskResult]:
        """The results, the one that is highest by the measure that decides first."""
        return sorted(self.results, key=lambda result: -result.summaries[0].mean)

    @property
    def digits(self) -> int:
        """Decimals that all returns on this task are shown with."""
        return decimals_of(summary for result in self.results for summary in result.summaries)

    @property
    def references(self) -> list[tuple[str, str | None, float]]:
        """What to draw beside the curves: in words, no algorithm, and the return."""
        return [] if self.goal is None else [("goal", None, self.goal)]


def groups_of(tasks: Sequence[OnTask]) -> list[str]:
    """The groups in which there is something to compare, or all there is to show."""
    parts = any(on.parts for on in tasks)
    twins = any(result.entry.algorithm != "mac" for on in tasks for result in on.twins)
    return [*([TWINS] if twins or not parts else []), *([PARTS] if parts else [])]


def by_task(sources: Sequence[RunSource]) -> tuple[list[OnTask], list[str]]:
    """The runs of each task, in the study's order, and the names of those that are not far enough to be compared."""
    changed, in_common = _changes([source.run.experiment for source in sources])
    variants = [
        _Variant(source, " ".join(settings_as_words(own))) for source, own in zip(sources, changed, strict=True)
    ]
    groups: dict[tuple[object, ...], list[_Variant]] = {}
    for variant in sorted(variants, key=lambda variant: variant.order):
        experiment = variant.source.run.experiment
        moments = (experiment.budget, experiment.evaluation.evaluation_interval)
        groups.setdefault((place_of(experiment), *moments), []).append(variant)
    measures = [
        measure for measure in MEASURES
        if not measure.greedy or all(source.run.evaluations.greedy_scores is not None for source in sources)
    ]  # fmt: skip
    changes = dict.fromkeys(own for group in groups.values() for _, own in group if own)
    shades = {own: f"change-{number}" for number, own in enumerate(changes)}  # the same on all tasks
    tasks, left_out = [], []
    titles = [title_of_task(group[0].source.run.experiment) for group in groups.values()]
    for title, group in zip(titles, groups.values(), strict=True):
        evaluated = _evaluations_in_common([variant.source for variant in group])
        shown = [variant for variant in group if 0 < evaluated <= _evaluated(variant.source.run)]
        left_out += [variant.source.name for variant in group if variant not in shown]
        if shown:
            steps = f", {shown[0].source.run.experiment.budget}" if titles.count(title) > 1 else ""
            tasks.append(
                _on_task(title + steps, shown, evaluated, measures, shades)._replace(
                    in_common=settings_as_words(in_common)
                )
            )
    return tasks, left_out


class _Variant(NamedTuple):
    """A run, and the settings in which it differs from the others, in words."""

    source: RunSource
    changed: str

    @property
    def order(self) -> tuple[int, str, int, bool, str]:
        """Of the study: its tasks, and on each of them MAC, its twins, and the parts that are switched off."""
        experiment = self.source.run.experiment
        task, parts = task_of(experiment), list(modern.PARTS)
        place = list(modern.TASKS).index(task) if task else len(modern.TASKS)
        part = self.changed.partition("=")[0]
        of_part = parts.index(part) if part in parts else (len(parts) if part else -1)
        return place, str(place_of(experiment)), of_part, experiment.algorithm != "mac", experiment.algorithm


def _evaluated(run: Run) -> int:
    return int(run.evaluations.evaluated.min())


def _evaluations_in_common(sources: Sequence[RunSource]) -> int:
    """Those that all finished runs have had, or else all."""
    finished = [source for source in sources if source.run.finished]
    return min(_evaluated(source.run) for source in finished or sources)


def _changes(experiments: Sequence[Experiment]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The settings of learning in which each of some experiments differs from the usual ones, and those that all share.

    What all share is told once: it may be that the usual settings were others when the runs were made.
    """
    learning = [_settings_of_learning(experiment) for experiment in experiments]
    changed = [
        {name: value for name, value in own.items() if value != usual[name]}
        for own, usual in zip(learning, map(_usual_settings, experiments), strict=True)
    ]
    names = dict.fromkeys(name for own in changed for name in own)
    shared = {
        name: values[0]
        for name in names
        if len(values := [own[name] for own in learning if name in own]) == sum(name in own for own in changed)
        and all(value == values[0] for value in values)
    }
    return [{name: value for name, value in own.items() if name not in shared} for own in changed], shared


def _settings_of_learning(experiment: Experiment) -> dict[str, Any]:
    others = {*vars(experiment.rules), *vars(experiment.evaluation)}
    return {name: value for name, value in experiment.settings().items() if name not in others}


def _usual_settings(experiment: Experiment) -> dict[str, Any]:
    """What the settings of an experiment would be if nobody had given any."""
    engine, learner = experiment.engine, experiment.learner
    start = start_from(experiment.environment, experiment.algorithm, engine=engine, learner=learner)
    return {name: s.default for name, s in settings_for_engine(engine, learner).items()} | start.settings


def _on_task(
    title: str, variants: Sequence[_Variant], evaluated: int, measures: Sequence[Measure], shades: Mapping[str, str]
) -> OnTask:
    task = task_of(variants[0].source.run.experiment)
    goal = modern.TASKS[task].goal if task else None
    titles = [algorithm_of(source.algorithm).title for source, _ in variants]
    labels = [f"{name}, {own}" if own else name for name, (_, own) in zip(titles, variants, strict=True)]
    rows = []
    for label, (source, own) in zip(labels, variants, strict=True):
        name = f"{label} ({source.name})" if labels.count(label) > 1 else label
        entry = Entry(name, source, _curves(source.run), shades.get(own, ""))
        values = [measure.of(source.run, evaluated) for measure in measures]
        when = None if goal is None else _steps_to(goal, source.run, evaluated, measures[0].greedy)
        rows.append(
            TaskResult(
                entry,
                own,
                values,
                [summarise(numbers) for numbers in values],
                (),
                None if when is None else median_episodes(when),
                0 if when is None else int(np.sum(np.isfinite(when))),
            )
        )
    on = OnTask(title, goal, measures, rows, [])
    mac = on.mac
    return on if mac is None else on._replace(results=[_compared(mac, row) for row in rows])


def _curves(run: Run) -> dict[tuple[str, str], Curve]:
    """Curves by steps, those of evaluations first; by episodes, runs of equal steps would be of unequal length."""
    found = {key: curve for key, curve in curves_of(run).items() if key[1] == STEPS}
    order = (GREEDY, EVALUATIONS, TRAINING)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))


def _steps_to(goal: float, run: Run, evaluated: int, greedy: bool) -> Array:
    """Agent steps of each trial [trials] to its first evaluation with a mean that high; inf where there was none."""
    means = run.evaluations.greedy_means if greedy else run.evaluations.means
    assert means is not None
    reached = np.asarray(means[:, :evaluated]) >= goal
    moments = run.experiment.evaluation_moments()[:evaluated]
    return np.where(reached.any(axis=1), moments[reached.argmax(axis=1)].astype(np.float64), np.inf)


def _compared(mac: TaskResult, row: TaskResult) -> TaskResult:
    """A result with what MAC's is against it."""
    if row.entry is mac.entry:
        return row
    paired = share_random_numbers(mac.entry, row.entry)
    against = [
        Comparison(differences(ours, [theirs], [paired])[0], probability_of_improvement(ours, theirs, paired))
        for ours, theirs in zip(mac.values, row.values, strict=True)
    ]
    return row._replace(against=against)

"""What a report says, as plain numbers. Everything that a page, a table or a figure shows is computed here."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mean_actor_critic.reports.curves import MOST_POINTS
from mean_actor_critic.reports.digits import decimals, decimals_of
from mean_actor_critic.reports.entries import Entry, make_entries, share_random_numbers, trials_in_words
from mean_actor_critic.reports.games import OnGame, by_game
from mean_actor_critic.reports.sources import Sources, SweepSource
from mean_actor_critic.reports.statistics import (
    Difference,
    Estimate,
    Summary,
    differences,
    episodes_to_threshold,
    final_scores,
    interquartile_mean,
    median_episodes,
    probability_of_improvement,
    summarise,
    trial_scores,
)
from mean_actor_critic.reports.tasks import OnTask, by_task
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.paper import Published, Task
from mean_actor_critic.studies.sweep import Outcome, Plan, Sweep, scores

MOST_ROWS, MOST_COLUMNS = 200, 100  # of a heat map
LAST = 100  # episodes that "last" means

Array = np.ndarray[Any, Any]
_Key = TypeVar("_Key")


# --- runs ------------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """A row of the results: what a run reached within some episodes."""

    entry: Entry
    mean: Summary  # over trials, of the means over episodes
    iqm: Summary
    final: Summary | None  # of the last episodes; None if there are no others
    to_threshold: Estimate | None  # median number of episodes until the task is solved, inf for never
    solved: int  # trials that ever were
    diverged: int  # trials
    better: Estimate | None  # probability that a trial of MAC is better than one of this
    ahead: Difference | None  # MAC against this
    paired: bool  # MAC's trials and this one's share their random numbers, one by one
    paper: Published | None

    @property
    def trials_in_words(self) -> str:
        """How many, and if some diverged, how many did not."""
        return trials_in_words(self.mean.n, self.diverged)


class Content(NamedTuple):
    """All that a report says."""

    sources: Sources
    entries: list[Entry]
    begun: list[str]  # runs that have no results yet, and sweeps that have no cell
    answer_at: int  # the number of episodes that the answer is about; 0 without runs, on games and on tasks
    results: dict[int, list[Result]]  # by number of episodes, best first
    searches: "list[Search]"
    games: list[OnGame]  # with the results of runs on games
    tasks: list[OnTask]  # with the results of runs that are compared by their evaluations

    @property
    def title(self) -> str:
        """Of the task."""
        return self.sources.task.title if self.sources.task else self.sources.environment

    @property
    def panels(self) -> Sequence[OnGame | OnTask]:
        """The games or tasks of runs that are judged by their evaluations."""
        return self.games or self.tasks

    @property
    def answer(self) -> list[Result]:
        """The results that the answer is about, best first."""
        return self.results.get(self.answer_at, [])

    @property
    def digits(self) -> int:
        """Decimals that all returns of runs are shown with; scores on games have their own."""
        rows = [row for rows in self.results.values() for row in rows]
        return decimals_of(summary for row in rows for summary in (row.mean, row.iqm, row.final))

    @property
    def reference(self) -> Entry | None:
        """The run of MAC that the answer compares the others with."""
        return reference(self.entries, self.answer_at)


def read(sources: Sources) -> Content:
    """What there is to say about some runs and sweeps."""
    begun = [source.name for source in sources.runs if not source.has_results]
    shown = [source for source in sources.runs if source.has_results]
    if sources.on_games:
        games = by_game(shown)
        entries = [result.entry for game in games for result in game.results]
        return Content(sources, entries, begun, 0, {}, [], games, [])
    if sources.on_tasks:
        tasks, left_out = by_task(sources.runs)
        return Content(sources, [row.entry for on in tasks for row in on.results], left_out, 0, {}, [], [], tasks)
    entries = make_entries(shown)
    return Content(
        sources,
        entries,
        begun + [source.name for source in sources.sweeps if not source.sweep.begun],
        common_episodes(entries),
        {budget: results(sources.task, entries, budget) for budget in budgets(sources.task, entries)},
        [search_of(source) for source in sources.sweeps if source.sweep.begun],
        [],
        [],
    )


def common_episodes(entries: Sequence[Entry]) -> int:
    """The episodes to compare over: those of all finished runs, or else those that all have."""
    finished = [entry for entry in entries if entry.source.run.finished]
    return min((entry.source.done for entry in finished or entries), default=0)


def budgets(task: Task | None, entries: Sequence[Entry]) -> list[int]:
    """The numbers of episodes to report at: the task's usual ones that were reached, what all have, and the most."""
    done = [entry.source.done for entry in entries] or [0]
    usual = [budget for budget in task.budgets if budget < max(done)] if task else []
    return sorted({*usual, common_episodes(entries), min(done), max(done)} - {0})


def reference(entries: Sequence[Entry], episodes: int) -> Entry | None:
    """What others are compared with: the first run of MAC that has so many episodes."""
    return next((entry for entry in entries if entry.algorithm == "mac" and entry.source.done >= episodes), None)


def diverged(run: Run, episodes: int) -> int:
    """Trials that diverged within the first `episodes`."""
    return int(np.sum((run.diverged_at > 0) & (run.diverged_at <= episodes)))


def results(task: Task | None, entries: Sequence[Entry], episodes: int) -> list[Result]:
    """A row for each run that has so many episodes, best first."""
    reached = [entry for entry in entries if entry.source.done >= episodes]
    of_trials = [trial_scores(entry.source.run.returns, episodes) for entry in reached]
    mac = reference(reached, episodes)
    ours = next((place for place, entry in enumerate(reached) if entry is mac), None)
    rivals = [place for place in range(len(reached)) if ours is not None and place != ours]
    paired = [ours is not None and share_random_numbers(reached[ours], entry) for entry in reached]
    tests = {}
    if ours is not None:
        against = differences(of_trials[ours], [of_trials[i] for i in rivals], [paired[i] for i in rivals])
        tests = dict(zip(rivals, against, strict=True))
    rows = []
    for place, entry in enumerate(reached):
        returns, values = entry.source.run.returns[:, :episodes], of_trials[place]
        when = episodes_to_threshold(returns, task.solved) if task else None
        rows.append(
            Result(
                entry,
                summarise(values),
                interquartile_mean(values),
                summarise(final_scores(returns, LAST)) if episodes > LAST else None,
                None if when is None else median_episodes(when),
                0 if when is None else int(np.sum(np.isfinite(when))),
                diverged(entry.source.run, episodes),
                probability_of_improvement(of_trials[ours], values, paired[place])
                if ours is not None and place in tests
                else None,
                tests.get(place),
                paired[place],
                task.scores.get(entry.algorithm) if task else None,
            )
        )
    return sorted(rows, key=lambda row: -row.mean.mean)


def best_agent(content: Content) -> tuple[Entry, int] | None:
    """The run that the answer puts first, on the first game or task, and its best trial in the end; None without."""
    if not content.entries:
        return None
    entry = content.panels[0].ranked[0].entry if content.panels else content.answer[0].entry
    healthy = entry.run.diverged_at == 0
    return entry, int(np.argmax(np.where(healthy | ~healthy.any(), entry.run.latest, -np.inf)))


def is_papers_order(task: Task, ranked: Sequence[str]) -> bool:
    """Whether algorithms of the paper, best first, are in the order that the paper reports."""
    return all(task.scores[better].mean >= task.scores[worse].mean for better, worse in itertools.pairwise(ranked))


# --- searches --------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A setting that was tried."""

    algorithm: str
    settings: Mapping[str, Any]
    score: float  # by the plan's rule, mean over trials
    sd: float
    trials: int
    episodes: int
    diverged: int


class HeatMap(NamedTuple):
    """Scores of an algorithm's settings: networks down, optimisers and learning rates across."""

    rows: list[str]
    columns: list[tuple[str, str]]  # optimiser, learning rate
    points: list[list[Point | None]]  # [row][column]
    left_out: int  # settings that there is no room for


class Search(NamedTuple):
    """A sweep in a report."""

    source: SweepSource
    points: dict[str, list[Point]]  # by algorithm, the one with the best winner first
    winners: dict[str, Point]
    maps: dict[str, HeatMap]
    shares: dict[str, tuple[Array, Array]]  # scores, and the share of settings that reach each

    @property
    def plan(self) -> Plan:
        """What was searched, and how."""
        return self.source.sweep.plan

    @property
    def sweep(self) -> Sweep:
        """The sweep itself."""
        return self.source.sweep

    @property
    def digits(self) -> int:
        """Decimals that all scores of the search are shown with."""
        return decimals(point.score for points in self.points.values() for point in points)

    @property
    def tried(self) -> int:
        """Settings of all algorithms together."""
        return sum(map(len, self.points.values()))

    @property
    def unfinished(self) -> str:
        """What to say about a search that is not finished; else nothing."""
        if self.sweep.finished:
            return ""
        planned = sum(len(self.sweep.points(algorithm)) for algorithm in self.plan.algorithms)
        done = sum(map(self.sweep.is_searched, self.plan.algorithms))
        return (
            f"unfinished: {self.tried} of {planned} settings tried so far, "
            f"{done} of {len(self.plan.algorithms)} algorithms searched to the end"
        )


def search_of(source: SweepSource) -> Search:
    """The numbers of a sweep."""
    rule = source.sweep.plan.rule
    tried: dict[str, list[Point]] = {}
    for outcome in source.sweep.outcomes():
        tried.setdefault(outcome.algorithm, []).append(_point(outcome, rule))
    best = {algorithm: _point(won, rule) for algorithm, won in source.sweep.winners().items()}
    points = {algorithm: tried[algorithm] for algorithm in sorted(tried, key=lambda name: -best[name].score)}
    return Search(
        source,
        points,
        {algorithm: best[algorithm] for algorithm in points},
        {algorithm: _heat_map(found) for algorithm, found in points.items()},
        {algorithm: shares(np.array([point.score for point in found])) for algorithm, found in points.items()},
    )


def _point(outcome: Outcome, rule: str) -> Point:
    values = scores(outcome.returns, rule)
    trials, episodes = outcome.returns.shape
    sd = float(np.std(values, ddof=1)) if trials > 1 else float("nan")
    lost = int(np.sum(outcome.diverged_at > 0))
    return Point(outcome.algorithm, outcome.settings, float(np.mean(values)), sd, trials, episodes, lost)


def shares(values: Array) -> tuple[Array, Array]:
    """Different scores from low to high, and the share of all that reaches each; at most `MOST_POINTS` of them."""
    different, counts = np.unique(values, return_counts=True)
    reaching = np.cumsum(counts[::-1])[::-1]
    places = np.unique(np.linspace(0, len(different) - 1, MOST_POINTS).round().astype(int))
    return different[places], reaching[places] / len(values)


_ACROSS = ("optimizer", "actor_lr", "critic_lr")


def _heat_map(points: Sequence[Point]) -> HeatMap:
    varying = _varying(points)
    down = [name for name in varying if name not in _ACROSS]
    cells: dict[tuple[str, tuple[str, str]], Point] = {}
    for point in points:
        row = " ".join(_words(name, point.settings[name]) for name in down if name in point.settings) or "all"
        cells[row, (str(point.settings.get("optimizer", "")), _rates(point.settings))] = point
    rows = _best([(row, point.score) for (row, _), point in cells.items()], MOST_ROWS)
    columns = sorted(
        _best([(column, point.score) for (_, column), point in cells.items()], MOST_COLUMNS), key=_by_number
    )
    table = [[cells.get((row, column)) for column in columns] for row in rows]
    return HeatMap(rows, columns, table, len(points) - sum(point is not None for line in table for point in line))


def _best(scored: Sequence[tuple[_Key, float]], most: int) -> list[_Key]:
    """Those with the highest scores, in the order in which they first appear."""
    best: dict[_Key, float] = {}
    for key, score in scored:
        best[key] = max(score, best.get(key, -np.inf))
    kept = set(sorted(best, key=lambda key: -best[key])[:most])
    return [key for key in best if key in kept]


def _varying(points: Sequence[Point]) -> list[str]:
    """Settings that are not the same everywhere, in the order of their names in the grid."""
    values: dict[str, set[Any]] = {}
    for point in points:
        for name, value in point.settings.items():
            values.setdefault(name, set()).add(value)
    everywhere = [name for name in values if all(name in point.settings for point in points)]
    return [name for name in values if len(values[name]) > 1 or name not in everywhere]


def _words(name: str, value: Any) -> str:
    """A setting in a label: networks and activations speak for themselves."""
    if name == "hidden":
        return "×".join(map(str, value)) or "linear"
    return str(value) if name == "activation" else f"{name}={value}"


def _rates(settings: Mapping[str, Any]) -> str:
    """The learning rate, or both."""
    return " / ".join(dict.fromkeys(str(settings[name]) for name in ("actor_lr", "critic_lr") if name in settings))


def _by_number(column: tuple[str, str]) -> tuple[str, list[float]]:
    optimizer, rates = column
    return optimizer, [float(rate) for rate in rates.split(" / ") if rate]

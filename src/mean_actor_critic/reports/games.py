"""Runs on Atari games as numbers: their last evaluations, the paper's Table 2, and how their settings differ from its.

The paper's numbers are means of 5 trials after 50 million agent steps, four frames each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mean_actor_critic.reports.curves import curves_of
from mean_actor_critic.reports.digits import decimals_of, in_millions
from mean_actor_critic.reports.entries import Entry
from mean_actor_critic.reports.evaluations import Score, last_score
from mean_actor_critic.reports.sources import RunSource, game_of, title_of_game
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.paper import TABLE_2, Game
from mean_actor_critic.spec.presets import start_from
from mean_actor_critic.spec.rules import PROTOCOLS
from mean_actor_critic.terminal import printable

PAPERS_STEPS = 50_000_000
MOST_NAMED = 2  # settings that a label has room for
# Settings that have a name of their own: a protocol's, with the paper's values or with those of Baselines for the rest.
_NAMED = [(protocol, algorithm, name) for protocol in PROTOCOLS
          for algorithm, name in (("mac", ""), ("a2c", "Baselines' settings"))]  # fmt: skip


class GameResult(NamedTuple):
    """What a run on a game came to so far, beside what the paper reports."""

    entry: Entry
    score: Score
    paper: float | None  # the paper's mean, where it has one for the algorithm
    differences: list[str]  # from the paper's settings, and what tells this run from others like it

    @property
    def notes(self) -> str:
        """What the number must not be compared with the paper's without; no text where there is nothing to say."""
        diverged = int(np.sum(self.entry.run.diverged_at > 0))
        words = [
            *self.differences,
            f"{diverged} diverged" if diverged else "",
            f"{self.score.cut_off} of {self.score.played} games cut off" if self.score.cut_off else "",
        ]
        return ", ".join(filter(None, words))

    @property
    def extent(self) -> str:
        """The agent steps of its last evaluation, and of its budget where these are more."""
        reached, budget = (in_millions(steps) for steps in (self.score.moment, self.entry.run.experiment.budget.amount))
        return reached if self.score.moment >= self.entry.run.experiment.budget.amount else f"{reached}/{budget}"


class OnGame(NamedTuple):
    """All runs on one game."""

    environment: str
    results: list[GameResult]  # in the paper's order of algorithms
    in_common: list[str]  # how the settings of all of them differ from the paper's

    @property
    def game(self) -> Game | None:
        """The paper's row; None if it has none."""
        return game_of(self.environment)

    @property
    def title(self) -> str:
        """The game's name."""
        return printable(title_of_game(self.environment))

    @property
    def ranked(self) -> list[GameResult]:
        """The results, that with the highest score first."""
        return sorted(self.results, key=lambda result: -result.score.summary.mean)

    @property
    def digits(self) -> int:
        """Decimals that all scores on this game are shown with."""
        return decimals_of(result.score.summary for result in self.results)

    @property
    def references(self) -> list[tuple[str, str | None, float]]:
        """Scores of the paper to draw beside the curves: in words, the algorithm if it is one of ours, and the score.

        The paper's final scores are shown only beside runs that are to be as long.
        """
        if self.game is None:
            return []
        algorithms = dict.fromkeys(
            result.entry.algorithm
            for result in self.results
            if result.paper is not None and result.entry.run.experiment.budget.amount >= PAPERS_STEPS
        )
        ours = [(f"{title_on_games(name)} in the paper", name, self.game.scores[name]) for name in algorithms]
        return [*ours, ("random play in the paper", None, self.game.random)]


def title_on_games(algorithm: str) -> str:
    """What the paper calls an algorithm on games, or else its title."""
    return TABLE_2.get(algorithm, algorithm_of(algorithm).title)


def by_game(sources: Sequence[RunSource]) -> list[OnGame]:
    """The runs of each game, in the order of the sources. All of them have been evaluated."""
    names = dict.fromkeys(source.run.experiment.environment for source in sources)
    return [_on_game(name, [s for s in sources if s.run.experiment.environment == name]) for name in names]


def _on_game(environment: str, sources: Sequence[RunSource]) -> OnGame:
    differences = [_differences(source.run) for source in sources]
    _tell_apart(sources, differences)
    in_common, apart = _in_common([source.run for source in sources])
    _tell_apart(sources, apart)
    game, results, labels = game_of(environment), [], set()
    for source, different, words in zip(sources, differences, apart, strict=True):
        short = _label(source.algorithm, words if len(words) <= MOST_NAMED else ["other settings"])
        label = _label(source.algorithm, words) if short in labels else short
        labels.add(label)
        entry, score = Entry(label, source, curves_of(source.run)), last_score(source.run)
        assert score is not None  # which is why it is here
        paper = game.scores.get(source.algorithm) if game else None
        results.append(GameResult(entry, score, paper, different))
    return OnGame(environment, results, in_common)


def _label(algorithm: str, words: Sequence[str]) -> str:
    return title_on_games(algorithm) + (f" ({', '.join(words)})" if words else "")


# --- settings --------------------------------------------------------------------------------------------------------


def _differences_from(named: tuple[str, str, str], run: Run) -> list[str]:
    """The name of some settings, if they are not the paper's, and each setting of a run that differs from them."""
    protocol, algorithm, name = named
    experiment = run.experiment
    chosen = start_from(experiment.environment, algorithm, engine=experiment.engine, protocol=protocol).settings
    usual = make_experiment(
        experiment.environment, experiment.algorithm, 1, 1, 0, chosen, engine=experiment.engine
    ).settings()
    names = [word for word in (protocol if protocol != "paper" else "", name) if word]
    return names + settings_as_words({name: v for name, v in experiment.settings().items() if v != usual[name]})


def _differences(run: Run) -> list[str]:
    """How a run's settings differ from the paper's: the name of what they are nearest to, and each that differs."""
    return min((_differences_from(named, run) for named in _NAMED), key=len)


def _in_common(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """How the settings of all of some runs differ from the paper's, and how those of each do besides.

    In as few words as possible: each run is compared with what it is nearest to, or all of them with the same.
    """

    def split(words: Sequence[list[str]]) -> tuple[list[str], list[list[str]]]:
        common = [word for word in words[0] if all(word in others for others in words)]
        return common, [[word for word in own if word not in common] for own in words]

    ways = [[_differences(run) for run in runs]]
    ways += [[_differences_from(named, run) for run in runs] for named in _NAMED]
    return min(map(split, ways), key=lambda found: len(found[0]) + sum(map(len, found[1])))


def _tell_apart(sources: Sequence[RunSource], words: Sequence[list[str]]) -> None:
    """Add the seed to the words of runs of one algorithm that have the same, and the path if need be."""
    for more in ("seed {source.run.experiment.seed}", "{source.name}"):
        names = [(source.algorithm, *own) for source, own in zip(sources, words, strict=True)]
        for source, own, name in zip(sources, words, names, strict=True):
            if names.count(name) > 1:
                own.append(more.format(source=source))

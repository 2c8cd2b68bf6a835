"""A run: a study on disk, as its readers see it. Reads the store only; imports no JAX."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mean_actor_critic.engines.curves import (
    KEPT,
    NETWORKS,
    SNAPSHOTS,
    STATE,
    Curves,
    Ends,
    Evaluations,
    returns_by_steps,
)
from mean_actor_critic.errors import DamagedFileError, InputError, MacError
from mean_actor_critic.files import as_path
from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.expected import networks_from_arrays, require_choices_in_units_of_one
from mean_actor_critic.runs.facts import as_html, as_text
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.checks import checked_name, require_whole
from mean_actor_critic.spec.learners import EPISODES, STEPS
from mean_actor_critic.trees import Array, Arrays

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

AGENTS = "agents"  # folder in the run folder: the best agents of evaluations, and some that are always kept
BEST = "best"  # how they are called: best-0, and step-000000200000-0 or episode-000000000200-0
SHOWN = 100  # episodes that a mean of the latest is about
CURVE_POINTS = 300  # of a curve by steps, at most


TRAINING, EVALUATIONS, GREEDY = CURVES = ("training", "evaluations", "greedy evaluations")  # what a curve is of
IN_WORDS = {
    TRAINING: "Return",
    EVALUATIONS: "Return of evaluations",
    GREEDY: "Return of evaluations, most probable actions",
}


class Curve(NamedTuple):
    """What came out of a run over time, whatever was counted."""

    unit: str  # of x: "episodes" or "steps"
    x: Array  # [points]
    values: Array  # [trials, points] mean returns; NaN where a trial has none
    of: str  # what the values are: one of CURVES

    @property
    def n(self) -> int:
        """How many trials."""
        return len(self.values)


class Run:
    """Trials of one experiment: learning curves, the status of each, and agents.

    Attributes:
        path: the run folder.
        manifest: what was run, and what the bits of the results depend on.
        experiment: what was run.
        returns: undiscounted returns of training [trials, episodes]; NaN for episodes not played. Runs on games keep no
            single episodes.
        lengths: their agent steps [trials, episodes]; 0 for episodes not played.
        evaluations: what trials came to when they were evaluated.
        diverged_at: [trials] the episode, or the update on games, from 1, that was not finite; 0 for none.
        warnings: lines about damaged files that were passed over.
    """

    def __init__(self, path: Path, manifest: store.Manifest, checkpoint: store.Checkpoint) -> None:
        self.path, self.manifest, self.warnings = path, manifest, checkpoint.warnings
        self.experiment = experiment = manifest.experiment
        self._arrays: Arrays | None = checkpoint.arrays
        trials = experiment.trials
        self.curves = Curves.blank(trials, 0 if experiment.is_game else experiment.episodes or 0)
        self.evaluations = Evaluations.blank(experiment)
        self.diverged_at = self._calls = np.zeros(trials, np.int32)  # calls of the learner
        if checkpoint.arrays is None:
            return
        counter = "update" if experiment.counts_updates else "episode"
        self.diverged_at, self._calls = (self._of_trials(name) for name in ("diverged_at", counter))
        if not experiment.is_game:
            blank = Curves.blank(*self._shape_of_curves(), side_by_side=experiment.counts_updates)
            arrays = {name: self._array(name, like.shape, like.dtype) for name, like in blank.arrays().items()}
            self.curves = Curves(**arrays)
        names = self.evaluations.arrays()
        if names:
            self.evaluations = Evaluations(
                **{name: self._array(name, like.shape, like.dtype) for name, like in names.items()}
            )
        evaluated = self.evaluations.evaluated
        for name, right in (
            ("lengths", self.curves.lengths >= 0),
            ("evaluated", (evaluated >= 0) & (evaluated <= experiment.evaluations)),
            (counter, self._calls >= 0),
            ("diverged_at", self.diverged_at >= 0),
        ):
            if not right.all():
                raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {name}")

    @classmethod
    def load(cls, path: str | Path, network: Any = None) -> Self:
        """The run in a folder, finished or not, also while another process writes it.

        `network` is what it was trained with, if that was a network of a user's own: its agents need it.
        """
        folder = as_path("path", path)
        manifest = store.read_manifest(folder)
        manifest = manifest._replace(experiment=manifest.experiment.with_network(network))
        return cls(folder, manifest, store.read_checkpoint(folder, manifest))

    # --- what came out -----------------------------------------------------------------------------------------------

    @property
    def returns(self) -> Array:
        """Undiscounted returns of training [trials, episodes]; NaN for episodes not played."""
        return self.curves.returns

    @property
    def lengths(self) -> Array:
        """Agent steps of the episodes of training [trials, episodes]; 0 for those not played."""
        return self.curves.lengths

    @property
    def episodes_done(self) -> Array:
        """Episodes played by each trial [trials]; 0 on games, which are counted in steps."""
        return self.curves.played

    @property
    def steps_done(self) -> Array:
        """Agent steps of each trial [trials]."""
        if self.experiment.counts_updates:
            return np.asarray(self._calls, np.int64) * self.experiment.steps_per_update
        return self.curves.steps

    @property
    def solved_at(self) -> Array:
        """Episodes, or evaluations, after which each trial was as good as `until` asked for [trials]; 0: never."""
        ends = Ends(self.experiment)
        side_by_side = self.curves.ends is not None
        return ends.solved_at(
            ends.looked_at(self.curves, self.steps_done) if side_by_side else self.curves, self.evaluations
        )

    def curve(self, unit: str | None = None, of: str | None = None) -> Curve:
        """Mean returns over time.

        Args:
            unit: of time, "episodes" or "steps"; by default what the budget counts.
            of: "training", "evaluations" or "greedy evaluations", whose actions were the most probable ones; by default
                training, where single episodes are kept.
        """
        unit = self.experiment.budget.unit if unit is None else unit
        of = (EVALUATIONS if self.experiment.is_game else TRAINING) if of is None else of
        checked_name("curve", unit, (EPISODES, STEPS))
        checked_name("curve", of, CURVES)
        if of != TRAINING:
            return self._evaluation_curve(unit, of)
        if self.experiment.is_game:
            raise InputError("curve", of, "evaluations: a run on a game keeps no single episodes")
        return self._training_curve(unit)

    def _evaluation_curve(self, unit: str, of: str) -> Curve:
        means = self.evaluations.greedy_means if of == GREEDY else self.evaluations.means
        if means is None:
            raise InputError("curve", of, "runs with evaluation_greedy=true")
        if not self.experiment.evaluations or unit != self.experiment.budget.unit:
            raise InputError("curve", unit, f"runs that were evaluated, by {self.experiment.budget.unit}")
        count = int(self.evaluations.evaluated.max(initial=0))
        return Curve(unit, self.experiment.evaluation_moments()[:count], means[:, :count], of)

    def _training_curve(self, unit: str) -> Curve:
        if unit == EPISODES:
            played = int(self.episodes_done.max(initial=0))
            return Curve(unit, np.arange(1, played + 1), np.asarray(self.returns[:, :played], np.float64), TRAINING)
        binned = returns_by_steps(self.curves, CURVE_POINTS)
        if binned is None:
            return Curve(unit, np.zeros(0), np.zeros((self.experiment.trials, 0)), TRAINING)
        return Curve(unit, binned.x, binned.values, TRAINING)

    @property
    def latest(self) -> Array:
        """What each trial came to lately [trials]: its last evaluation on games, else its last 100 episodes."""
        if self.experiment.is_game:
            last = self.evaluations.evaluated - 1
            means = self.evaluations.means[np.arange(len(last)), np.maximum(last, 0)]
            return np.where(last >= 0, means, np.nan)
        played = self.episodes_done
        rows = zip(self.returns, played, strict=True)
        return np.array([np.mean(row[max(0, n - SHOWN) : n], dtype=np.float64) if n else np.nan for row, n in rows])

    # --- how far it is -----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every trial has done all that it should."""
        return all(self._has_ended())

    def _has_ended(self) -> list[bool]:
        solved = self.solved_at > 0
        evaluated = self.evaluations.evaluated == self.experiment.evaluations
        if self.experiment.is_game:
            return (evaluated | solved).tolist()
        done = self.episodes_done if self.experiment.budget.unit == EPISODES else self.steps_done
        return ((done >= self.experiment.budget.amount) & evaluated | solved).tolist()

    @property
    def status(self) -> list[str]:
        """One for each trial: `finished`, `solved at episode N`, `episode N` or `diverged at episode N`."""
        in_steps = self.experiment.counts_updates
        unit, per_call = ("step", self.experiment.steps_per_update) if in_steps else ("episode", 1)
        looks = "evaluation" if self.experiment.evaluations else "episode"
        trials = zip(self.diverged_at, self.solved_at, self._has_ended(), self._calls, strict=True)
        return [
            f"diverged at {unit} {diverged * per_call}"
            if diverged
            else (f"solved at {looks} {solved}" if solved else ("finished" if ended else f"{unit} {calls * per_call}"))
            for diverged, solved, ended, calls in trials
        ]

    @property
    def digest(self) -> str:
        """SHA-256 of all that was learned: curves, weights, optimiser, replay, emulators. Equal digests: equal bits."""
        learned = {name: x for name, x in (self._arrays or {}).items() if not name.startswith(SNAPSHOTS)}
        return store.digest_of_arrays(learned, {})

    # --- agents ------------------------------------------------------------------------------------------------------

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The moments, after so many episodes, from which `agent` has the networks of every trial."""
        done = -1 if self._arrays is None else int(self.episodes_done.min())
        return tuple(episode for episode in self.manifest.snapshots if episode <= done)

    def agent(self, trial: int = 0, episode: int | None = None) -> Agent:
        """The agent of one trial as it is at the last checkpoint, or as it was after one of the `snapshots`."""
        trial = require_whole("trial", trial, 0, self.experiment.trials - 1)
        if episode is not None and episode not in self.snapshots:
            kept = ", ".join(map(str, self.snapshots)) or "none, because the run was started without snapshots"
            raise InputError("episode", episode, f"one that was kept: {kept}")
        if self._arrays is None:
            raise InputError("run", str(self.path), "a run with a checkpoint; this one has only begun")
        self.experiment.require_network()
        try:
            learned = self._learned(trial, STATE if episode is None else f"{SNAPSHOTS}{episode}/")
            networks = networks_from_arrays(self.experiment, self.manifest.spaces, learned)
            require_choices_in_units_of_one(self.experiment, networks)
        except (KeyError, ValueError, IndexError) as fault:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {fault}") from None
        return Agent(self.experiment, self.manifest.spaces, trial, networks)

    def _learned(self, trial: int, prefix: str) -> Arrays:
        """The arrays of a trial's networks, by an agent's names."""
        assert self._arrays is not None
        if prefix == STATE and any(name.startswith(KEPT) for name in self._arrays):
            kept = {name.removeprefix(KEPT): x for name, x in self._arrays.items() if name.startswith(KEPT)}
            return {name: array[trial] for name, array in kept.items()}
        own = f"trial/{trial}/{prefix}"  # where trials are kept apart
        if any(name.startswith(own) for name in self._arrays):
            parts = tuple(own + part for part in NETWORKS)
            return {name.removeprefix(own): x for name, x in self._arrays.items() if name.startswith(parts)}
        parts = tuple(prefix + part for part in NETWORKS)
        learned = {name.removeprefix(prefix): x for name, x in self._arrays.items() if name.startswith(parts)}
        if any(array.shape[:1] != (self.experiment.trials,) for array in learned.values()):
            raise ValueError("networks of other trials")
        return {name: array[trial] for name, array in learned.items()}

    # --- reading arrays ----------------------------------------------------------------------------------------------

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        assert self._arrays is not None
        array = self._arrays.get(name)
        if array is None or array.shape != shape or array.dtype != dtype:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {name}")
        return array

    def _of_trials(self, name: str) -> Array:
        """A number that each trial's state has, int32 [trials]."""
        assert self._arrays is not None
        if not self.experiment.is_game:
            return self._array(STATE + name, (self.experiment.trials,), np.int32)
        places = range(self.experiment.trials)
        return np.array([self._array(f"trial/{place}/{STATE}{name}", (), np.int32) for place in places])

    def state_of_trials(self, name: str) -> Array | None:
        """A number that each trial's state has [trials], by its place there; None where there is none."""
        array = (self._arrays or {}).get(STATE + name)
        return array if array is not None and array.shape == (self.experiment.trials,) else None

    def _shape_of_curves(self) -> tuple[int, int]:
        assert self._arrays is not None
        if self.experiment.episodes is not None:
            return self.experiment.trials, self.experiment.episodes
        returns = self._arrays.get("returns")
        return self.experiment.trials, returns.shape[1] if returns is not None and returns.ndim == 2 else 0

    # --- for people --------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, str]:
        """What there is to say in a few words."""
        experiment, latest = self.experiment, self.latest
        ended = sum(self._has_ended())
        facts = {
            "environment": experiment.environment,
            "algorithm": algorithm_of(experiment.algorithm).title,
            "learner": f"{experiment.learner}, {experiment.engine} engine",
            "settings": self.manifest.origin or "as given",
            "trials": f"{experiment.trials}, of {experiment.budget}, from seed {experiment.seed}",
            "status": "finished" if self.finished else f"{ended} of {experiment.trials} trials have ended",
        }
        if np.isfinite(latest).all():
            of = "last evaluation" if experiment.is_game else f"last {SHOWN} episodes"
            facts["mean return"] = f"{np.mean(latest):.4g} ({of}; worst trial {np.min(latest):.4g})"
        diverged = int(np.sum(self.diverged_at > 0))
        if diverged:
            facts["diverged"] = f"{diverged} trials"
        return {**facts, "folder": str(self.path)}

    def __repr__(self) -> str:
        return as_text("Run", self._facts())

    def _repr_html_(self) -> str:
        return as_html("Run", self._facts())

    def plot(self, unit: str | None = None, of: str | None = None) -> "Figure":
        """A figure of the learning curve: the mean over trials and every trial; needs matplotlib.

        Args:
            unit: as for `curve`.
            of: as for `curve`.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MacError("figures need matplotlib: pip install 'mean-actor-critic[plots]'") from None
        curve = self.curve(unit, of)
        algorithm = algorithm_of(self.experiment.algorithm)
        figure = Figure(figsize=(7.5, 4.5), layout="constrained")
        axes = figure.subplots()
        for values in curve.values if curve.n > 1 else ():
            axes.plot(curve.x, values, color=algorithm.colour, alpha=max(0.08, 0.6 / curve.n), linewidth=0.8)
        everyone = np.isfinite(curve.values).all(axis=0)
        mean = np.mean(curve.values[:, everyone], axis=0)
        label = f"{algorithm.title}, mean of {curve.n} trials" if curve.n > 1 else f"{algorithm.title}, 1 trial"
        axes.plot(curve.x[everyone], mean, color=algorithm.colour, linewidth=2, label=label)
        unit_in_words = "Episode" if curve.unit == EPISODES else "Agent steps"
        axes.set(xlabel=unit_in_words, ylabel=IN_WORDS[curve.of], title=self.experiment.environment)
        axes.legend(frameon=False)
        axes.grid(alpha=0.25)
        return figure

    def to_pandas(self, of: str | None = None) -> "pd.DataFrame":
        """Every episode of training, or every evaluation, as a row of a DataFrame; needs pandas.

        Args:
            of: "training" or "evaluations"; by default training, where single episodes are kept.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MacError("tables need pandas: pip install 'mean-actor-critic[pandas]'") from None
        numbers = self.experiment.trial_numbers()
        if of is not None:
            checked_name("of", of, (TRAINING, EVALUATIONS))
        if of == EVALUATIONS or (of is None and self.experiment.is_game):
            curve, greedy = self.curve(of=EVALUATIONS), self.evaluations.greedy_means
            trial, point = np.nonzero(np.isfinite(curve.values))
            columns = {"trial": numbers[trial], curve.unit: curve.x[point], "mean_score": curve.values[trial, point]}
            return pd.DataFrame(columns if greedy is None else {**columns, "greedy_mean_score": greedy[trial, point]})
        self.curve(of=TRAINING)  # or there is none
        trial, episode = np.nonzero(self.lengths > 0)
        return pd.DataFrame(
            {
                "trial": numbers[trial],
                "episode": episode + 1,
                "return": self.returns[trial, episode],
                "length": self.lengths[trial, episode],
                "steps": self.curves.ended_at[trial, episode],
            }
        )

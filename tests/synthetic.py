"""Runs and sweeps that were never trained: made-up learning curves in real folders, for tests of reports."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mean_actor_critic.engines.curves import Evaluations
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.gradients.theory import (
    EPISODE,
    STATISTICS,
    Claim,
    EntropyCurve,
    Moment,
    Number,
    Row,
    Theory,
    Trial,
)
from mean_actor_critic.runs import store
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import Budget, Experiment, make_experiment
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.spec.modern import Extent
from mean_actor_critic.spec.paper import papers_grid
from mean_actor_critic.spec.presets import SEARCH_SEEDS
from mean_actor_critic.studies.reproduce import modern
from mean_actor_critic.studies.sweep import Cell, CellResult, Plan, Rung, Sweep, create_sweep

VERSIONS = {"mean_actor_critic": "0.1.0", "jax": "0.10.2"}
PIXELS = Spaces(gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8), gymnasium.spaces.Discrete(4))
SPACES = Spaces(gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2))
GRID = {"choices": {"hidden": [[], [64], [64, 64]], "optimizer": ["adam", "sgd"], "lr": [0.001, 0.01, 0.1]}}

# where each algorithm ends up, and how fast
ENDS = {"reinforce": (120, 90), "advantage_reinforce": (175, 60), "actor_critic": (130, 80),
        "advantage_actor_critic": (192, 30), "mac": (198, 25)}  # fmt: skip


def learning(algorithm: str, trials: int, episodes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns [trials, episodes] that look like Cart Pole."""
    random = np.random.default_rng([seed, *algorithm.encode()])
    end, pace = ENDS.get(algorithm, (150, 40))
    ends = end + random.normal(0, 8, (trials, 1))
    curve = 20 + (ends - 20) * (1 - np.exp(-np.arange(episodes) / pace))
    return np.clip(curve + random.normal(0, 12, (trials, episodes)), 8, 200).astype(np.float32)


def make_run(
    path: Path,
    algorithm: str = "mac",
    returns: np.ndarray[Any, Any] | None = None,
    *,
    lengths: np.ndarray[Any, Any] | None = None,
    environment: str = "CartPole-v0",
    seed: int = 0,
    done: int | None = None,
    diverged: tuple[int, ...] = (),
    settings: dict[str, Any] | None = None,
    engine: str = "compiled",
    budget: Budget | None = None,
    until: float | None = None,
    scores: np.ndarray[Any, Any] | None = None,
) -> Run:
    """A run folder with made-up returns: the first `done` episodes were played, the `diverged` trials are marked.

    `lengths` [trials, episodes] are 0 where a trial has not played an episode; by default a step has a reward of 1.
    `scores` [trials, evaluations, episodes] are those of the first evaluations; `settings` say when these come.
    """
    returns = learning(algorithm, 10, 200, seed) if returns is None else np.asarray(returns, np.float32)
    trials, episodes = returns.shape
    experiment = make_experiment(
        environment, algorithm, trials, budget or episodes, seed, settings or {}, engine=engine, until=until
    )
    manifest = store.create_run(path, experiment, SPACES, 1, VERSIONS)
    lengths = np.maximum(1, np.rint(np.abs(returns))) if lengths is None else np.asarray(lengths)
    played = (np.arange(episodes) < (episodes if done is None else done)) & (lengths > 0)
    diverged_at = np.zeros(trials, np.int32)
    diverged_at[list(diverged)] = 3
    arrays = {
        "returns": np.where(played, returns, np.nan).astype(np.float32),
        "lengths": np.where(played, lengths, 0).astype(np.int32),
        "state/diverged_at": diverged_at,
        "state/episode": played.sum(axis=1).astype(np.int32),
        **_evaluations(experiment, scores).arrays(),
    }
    store.write_checkpoint(path, manifest, int(played.sum()), arrays)
    return Run.load(path)


def _evaluations(experiment: Experiment, scores: np.ndarray[Any, Any] | None) -> Evaluations:
    found = Evaluations.empty(experiment)
    if scores is not None:
        found.scores[:, : scores.shape[1], : scores.shape[2]] = scores
        found.evaluated[:] = scores.shape[1]
    return found


def playing(algorithm: str, trials: int, evaluations: int, games: int = 8, end: float = 370.0) -> np.ndarray[Any, Any]:
    """Scores [trials, evaluations, games] that look like a game's."""
    random = np.random.default_rng([evaluations, *algorithm.encode()])
    pace = 0.25 * evaluations * (1 + len(algorithm) % 3)
    curve = end * (1 - np.exp(-np.arange(evaluations) / pace))
    skill = random.normal(1, 0.08, (trials, 1, 1))
    return np.rint(curve[:, None] * skill + random.normal(0, 0.1 * abs(end), (trials, evaluations, games)))


def make_game_run(
    path: Path,
    algorithm: str = "mac",
    scores: np.ndarray[Any, Any] | None = None,
    *,
    environment: str = "ALE/Breakout-v5",
    steps: int = 50_000_000,
    seed: int = 0,
    evaluations: int = 10,
    cut_off: int = 0,
    settings: dict[str, Any] | None = None,
) -> Run:
    """A run folder on a game with made-up scores.

    `scores` [trials, done, games] are those of the first of all `evaluations`; of each, `cut_off` games of each trial
    were cut off.
    """
    scores = playing(algorithm, 3, evaluations) if scores is None else np.asarray(scores, np.float32)
    trials, done, games = scores.shape
    asked = {"evaluation_interval": steps // evaluations, "evaluation_episodes": games, "evaluation_environments": 1}
    experiment = make_experiment(
        environment, algorithm, trials, steps, seed, {**asked, **(settings or {})}, engine="atari"
    )
    shown = gymnasium.spaces.Box(0, 255, experiment.rules.observation_shape, np.uint8)
    spaces = PIXELS._replace(observation=shown)
    manifest = store.create_run(path, experiment, spaces, 1, VERSIONS, (), "the paper's for Atari games")
    found = _evaluations(experiment, scores)
    for array, value in ((found.unfinished, cut_off), (found.entropy, 1.25), (found.training_games, 7)):
        array[:, :done] = value
    updates = experiment.update_of_evaluation(done - 1) if done else 0
    states = {
        f"trial/{place}/state/{name}": np.array(value, np.int32)
        for place in range(trials)
        for name, value in (("diverged_at", 0), ("update", updates))
    }
    store.write_checkpoint(path, manifest, updates, {**states, **found.arrays()})
    return Run.load(path)


def make_variant_run(
    folder: Path,
    task: str,
    variant: str,
    greedy: np.ndarray[Any, Any],
    sampled: np.ndarray[Any, Any] | None = None,
    *,
    share: float = 0.01,
    diverged: tuple[int, ...] = (),
    hyper: dict[str, float] | None = None,
) -> Run:
    """A run of the study of the replayed learner, below its folder, with made-up evaluations.

    `greedy` and `sampled` [trials, evaluations] are means; the second is the first unless it is given. Where there are
    fewer evaluations than the budget has, the run is not finished. `hyper` are numbers other than the usual ones.
    """
    sampled = greedy if sampled is None else sampled
    trials, done = greedy.shape
    extent = Extent(trials, share)
    ((part,),) = modern([task], [variant], folder, extent).values()
    experiment = dataclasses.replace(part.experiment, hyper=dataclasses.replace(part.experiment.hyper, **(hyper or {})))
    spaces = find_environment(experiment.environment, kwargs=experiment.environment_kwargs).spaces
    manifest = store.create_run(part.path, experiment, spaces, 1, VERSIONS, (), "general")
    found = Evaluations.empty(experiment)
    assert found.greedy_scores is not None
    found.scores[:, :done], found.greedy_scores[:, :done] = sampled[..., None], greedy[..., None]
    found.evaluated[:] = done
    diverged_at = np.zeros(trials, np.int32)
    diverged_at[list(diverged)] = 1
    steps = experiment.budget.amount if done == experiment.evaluations else experiment.moment_of_evaluation(done)
    updates = -(-steps // experiment.steps_per_update)
    one = np.ones((trials, 1))
    arrays = {
        "returns": (0 * one).astype(np.float32),
        "lengths": one.astype(np.int32),
        "ends": (4 * one).astype(np.int64),
        "state/diverged_at": diverged_at,
        "state/update": np.full(trials, updates, np.int32),
        **found.arrays(),
    }
    store.write_checkpoint(part.path, manifest, updates, arrays)
    return Run.load(part.path)


def make_study(folder: Path, trials: int = 10, episodes: int = 200) -> dict[str, Run]:
    """A run of each algorithm, as `mac reproduce` leaves them."""
    return {name: make_run(folder / name, name, learning(name, trials, episodes)) for name in ENDS}


def make_sweep(
    path: Path,
    grid: Any = None,
    rungs: tuple[Rung, ...] = (Rung(10, 200),),
    algorithms: tuple[str, ...] = tuple(ENDS),
    *,
    environment: str = "CartPole-v0",
    seed: int = SEARCH_SEEDS.start,
    most_cells: int | None = None,
) -> Sweep:
    """A sweep folder with made-up learning curves; only the first `most_cells` of each algorithm, if asked."""
    choices = grid_from_json(grid or papers_grid(environment))
    plan = Plan(environment, algorithms, choices, rungs, 1 / 3, "asymptotic", seed)
    sweep = create_sweep(path, plan, VERSIONS)
    for algorithm in algorithms:
        for number, cell in enumerate(sweep.cells(algorithm)):
            if most_cells is None or number < most_cells:
                sweep.write(cell, _result(sweep, cell))
    return sweep


def _result(sweep: Sweep, cell: Cell) -> CellResult:
    """Better near an algorithm's own learning rate, and for networks that are neither none nor huge."""
    random = np.random.default_rng([cell.first_trial, *cell.name.encode()])
    end, pace = ENDS.get(cell.algorithm, (150, 40))
    points = [sweep.points(cell.algorithm)[place] for place in cell.points]
    rates = np.array([point["actor_lr"] for point in points])
    rate = {"sgd": 0.05, "adadelta": 0.05}.get(cell.settings.get("optimizer", "adam"), 0.002) * (
        1 + len(cell.algorithm) % 5
    )
    quality = np.exp(-(np.log10(rates / rate) ** 2)) * (0.9 if cell.settings.get("hidden") else 0.4)
    shape = (len(points), cell.trials)
    ends = 10 + (end - 10) * np.clip(quality[:, None] + random.normal(0, 0.06, shape), 0, 1)
    curves = ends[..., None] * (1 - np.exp(-np.arange(1, cell.episodes + 1) / pace))
    noisy = np.clip(curves + random.normal(0, 10, curves.shape), 8, 200).astype(np.float32)
    diverged_at = np.where(random.random(shape) < 0.02 * (rates[:, None] > 0.02), 5, 0).astype(np.int32)
    return CellResult(noisy, diverged_at, 1.0)


def make_theory(trials: int = 2, environment: str = "CartPole-v0", estimators: Iterable[str] = ENDS) -> Theory:
    """Measurements that were never made."""
    batches = ("1", EPISODE)
    return Theory(
        command="mac reproduce theorems --trials 2",
        versions=VERSIONS,
        trials=tuple(
            Trial(environment, "mac", number, 2, 450, 1000, 0,
                  tuple(_moment(episode, number, batches, estimators) for episode in (0, 50, 100)))
            for number in range(trials)
        ),
        curves=tuple(
            EntropyCurve(rival, actions, (1.0, 0.6, 0.2), (0.1, 0.5, 0.6), (0.0, 0.4, 0.5), (0.2, 0.6, 0.7),
                         amount=(1.0, 0.7, 0.1))
            for rival in ("actor_critic", "advantage_actor_critic")
            for actions in (2, 3)
        ),
        problems=1000,
        claims=(
            Claim("Theorem 1 <b>", "holds", "differ by 1e-15 & less", "0 of 5"),
            Claim("Theorem 2 on trajectories", "fails", "a counterexample", ""),
            Claim("Entropy", "depends", "", "40 % to 60 %"),
        ),
    )  # fmt: skip


def _moment(episode: int, number: int, batches: tuple[str, ...], estimators: Iterable[str]) -> Moment:
    def row(estimator: str, batch: str) -> Row:
        scale = 1.0 + len(estimator) * (1 + episode) + number
        values = dict.fromkeys(STATISTICS, Number(0.5, 0.4, 0.6))
        whole = Number(scale, 0.9 * scale, 1.1 * scale)
        parts = {"actions": 0.7 * scale, "states": 0.5 * scale, "returns": 0.0, "trajectories": -0.2 * scale}
        split = {name: Number(value, value, value) for name, value in parts.items()}
        return Row(estimator, batch, {**values, "variance": whole, **split, "bias": Number(*[float("nan")] * 3)})

    rows = tuple(row(estimator, batch) for batch in batches for estimator in estimators)
    entropy = Number(0.6 - episode / 300, 0.1, 0.7)
    return Moment(episode, 100_000, 1000, Number(50.0, 49.0, 51.0), Number(50.0, 49.0, 51.0), entropy,
                  Number(1.0, 0.9, 1.1), 0.01, rows)  # fmt: skip

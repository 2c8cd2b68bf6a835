"""Steps per second of training on Lunar Lander beside stepping the same environments without learning, and peers."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import hosted_engine, stable_baselines, stepping
from benchmarks.harness import (
    Measurement,
    Variants,
    alternating,
    in_new_process,
    in_turn_ratio,
    log,
    mean,
    speed_cells,
    table,
)
from benchmarks.hosted_engine import ENVIRONMENT, RELEASED
from mean_actor_critic.spec.presets import LUNAR_LANDER

TARGET = 0.7

PRESET_ROW = "training, MAC at the preset"
RELEASED_ROW = "training, MAC at the authors' released settings"
SETTINGS = {PRESET_ROW: LUNAR_LANDER["mac"], RELEASED_ROW: RELEASED}
PLUMBING = "the same by this engine's workers, through the shared board"


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: int = 100
    workers: int = 2
    episodes: int = 120  # of every trial, before anything is timed: the first are short, most of a training's are not
    episodes_after_loading: int = 2
    seconds: float = 20.0  # timed, of training
    raw_warm_up: float = 2.0
    raw_seconds: float = 10.0  # timed, of stepping without learning
    peer: stable_baselines.Size = stable_baselines.Size()


TOY = Size(1, 2, 1, 1, 1, 0.1, 0.01, 0.1, stable_baselines.TOY)


def measure(size: Size) -> str:
    raw = f"raw: {size.trials} environments in {size.workers} plain processes, random actions"
    with tempfile.TemporaryDirectory() as folder:
        peers = stable_baselines.variants(ENVIRONMENT, size.peer)
        variants = {**_training(size, Path(folder)), **_stepping(size, raw), **peers}
        results = alternating(variants, size.repeats)
    ours = results[PRESET_ROW]
    rows = [[name, *speed_cells(ours, found), _mean_length(found)] for name, found in results.items()]
    shares = ", ".join(f"{in_turn_ratio(results[name], results[raw]):.2f} ({name})" for name in SETTINGS)
    return f"""## Lunar Lander

{ENVIRONMENT}, {size.trials} trials, {size.workers} worker processes. Agent steps per second; median and range
of {size.repeats} turns. *Ratio*: the first row's speed over the row's, median of the turns. Training is timed for
{size.seconds:g} s after every trial has played {size.episodes} episodes, and steps of unfinished episodes count.

- Preset: {_in_words(SETTINGS[PRESET_ROW])}.
- Released settings: {_in_words(RELEASED)}.

*Steps an episode* differ: with random actions a lander crashes soon, so that resets, each as dear as several steps, are
a larger part of that work than of training's. Gymnasium's AsyncVectorEnv has a process for each
environment. Stable-Baselines3 trains one agent from the beginning.

{table(["", "steps/s", "range", "ratio", "steps an episode"], rows)}
{stable_baselines.note()}
Share of the raw speed that training reaches (wanted: {TARGET}): {shares}.
"""


def _training(size: Size, folder: Path) -> Variants:
    """Rows that train, on from where every trial has played some episodes: that is done here, once for all turns."""
    variants: dict[str, Any] = {}
    for number, (name, settings) in enumerate(SETTINGS.items()):
        run = {"trials": size.trials, "workers": size.workers, "settings": settings}
        run["file"] = str(folder / f"{number}.npz")
        before = in_new_process(hosted_engine.prepare, {**run, "episodes": size.episodes})
        log(f"{name}: {before['steps']:,} steps before the first turn, in {before['seconds']:.0f} s")
        timed = {**run, "episodes": size.episodes_after_loading, "seconds": size.seconds}
        variants[name] = (hosted_engine.train, timed)
    return variants


def _stepping(size: Size, raw: str) -> Variants:
    times = {"warm_up": size.raw_warm_up, "seconds": size.raw_seconds}
    run = {"environment": ENVIRONMENT, "environments": size.trials, **times}
    gymnasium = "Gymnasium's AsyncVectorEnv, {} environments, random actions"
    return {
        raw: (stepping.in_plain_processes, {**run, "processes": size.workers}),
        PLUMBING: (stepping.in_our_workers, {**run, "workers": size.workers}),
        gymnasium.format(size.trials): (stepping.by_gymnasium, run),
        gymnasium.format(size.workers): (stepping.by_gymnasium, {**run, "environments": size.workers}),
    }


def _mean_length(measurements: list[Measurement]) -> str:
    return f"{mean(m['episode_length'] for m in measurements):.0f}"


def _in_words(settings: dict[str, Any]) -> str:
    hidden = " × ".join(map(str, settings["hidden"]))
    return (
        f"{hidden} {settings['activation']} units, {settings['minibatches']} minibatches of {settings['batch_size']} "
        f"an episode, replay of {settings['replay_capacity']}"
    )

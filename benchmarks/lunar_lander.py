"""Steps per second of training on Lunar Lander beside stepping the same environments without learning, and peers."""

import tempfile
from pathlib import Path
from typing import Any

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

REPEATS = 3
STUDY = {"trials": 100, "workers": 2}
EPISODES = 120  # of every trial, before anything is timed: the first are short, most of a training's are not
EPISODES_AFTER_LOADING = 2
SECONDS = 20.0  # timed, of training
RAW_SECONDS = 10.0  # timed, of stepping without learning
PEER_STEPS = 20_000
TARGET = 0.7

PRESET_ROW = "training, MAC at the preset"
RELEASED_ROW = "training, MAC at the authors' released settings"
SETTINGS = {PRESET_ROW: LUNAR_LANDER["mac"], RELEASED_ROW: RELEASED}
RAW = "raw: {} environments in {} plain processes, random actions".format(*STUDY.values())
PLUMBING = "the same by this engine's workers, through the shared board"


def report() -> str:
    with tempfile.TemporaryDirectory() as folder:
        peers = stable_baselines.variants(ENVIRONMENT, PEER_STEPS)
        variants = {**_training(Path(folder)), **_stepping(), **peers}
        results = alternating(variants, REPEATS)
    ours = results[PRESET_ROW]
    rows = [[name, *speed_cells(ours, found), _mean_length(found)] for name, found in results.items()]
    shares = ", ".join(f"{in_turn_ratio(results[name], results[RAW]):.2f} ({name})" for name in SETTINGS)
    return f"""## Lunar Lander

{ENVIRONMENT}, {STUDY["trials"]} trials, {STUDY["workers"]} worker processes. Agent steps per second; median and range
of {REPEATS} turns. *Ratio*: the first row's speed over the row's, median of the turns. Training is timed for
{SECONDS:g} s after every trial has played {EPISODES} episodes, and steps of unfinished episodes count.

- Preset: {_in_words(SETTINGS[PRESET_ROW])}.
- Released settings: {_in_words(RELEASED)}.

*Steps an episode* differ: with random actions a lander crashes soon, so that resets, each as dear as several steps, are
a larger part of that work than of training's. Gymnasium's AsyncVectorEnv has a process for each
environment. Stable-Baselines3 trains one agent from the beginning.

{table(["", "steps/s", "range", "ratio", "steps an episode"], rows)}
{stable_baselines.note()}
Share of the raw speed that training reaches (wanted: {TARGET}): {shares}.
"""


def _training(folder: Path) -> Variants:
    """Rows that train, on from where every trial has played some episodes: that is done here, once for all turns."""
    variants: dict[str, Any] = {}
    for number, (name, settings) in enumerate(SETTINGS.items()):
        run = {"settings": settings, **STUDY, "file": str(folder / f"{number}.npz")}
        before = in_new_process(hosted_engine.prepare, {**run, "episodes": EPISODES})
        log(f"{name}: {before['steps']:,} steps before the first turn, in {before['seconds']:.0f} s")
        timed = {**run, "episodes": EPISODES_AFTER_LOADING, "seconds": SECONDS}
        variants[name] = (hosted_engine.train, timed)
    return variants


def _stepping() -> Variants:
    trials, workers = STUDY.values()
    raw = {"environment": ENVIRONMENT, "environments": trials, "seconds": RAW_SECONDS}
    gymnasium = "Gymnasium's AsyncVectorEnv, {} environments, random actions"
    return {
        RAW: (stepping.in_plain_processes, {**raw, "processes": workers}),
        PLUMBING: (stepping.in_our_workers, {**raw, "workers": workers}),
        gymnasium.format(trials): (stepping.by_gymnasium, raw),
        gymnasium.format(workers): (stepping.by_gymnasium, {**raw, "environments": workers}),
    }


def _mean_length(measurements: list[Measurement]) -> str:
    return f"{mean(m['episode_length'] for m in measurements):.0f}"


def _in_words(settings: dict[str, Any]) -> str:
    hidden = " × ".join(map(str, settings["hidden"]))
    return (
        f"{hidden} {settings['activation']} units, {settings['minibatches']} minibatches of {settings['batch_size']} "
        f"an episode, replay of {settings['replay_capacity']}"
    )

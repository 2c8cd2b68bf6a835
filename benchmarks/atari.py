"""Steps per second of training on Pong beside a plain PyTorch loop, where time goes, and what the emulators allow."""

import os
import time
from typing import Any

import numpy as np

from benchmarks import pytorch_atari
from benchmarks.harness import (
    Measurement,
    alternating,
    in_new_process,
    in_turn_ratio,
    median,
    rates,
    speed_cells,
    table,
)

GAME, ROM, ENVIRONMENTS = "ALE/Pong-v5", "pong", 16
REPEATS = 3
WARM_UP, SECONDS = 5.0, 10.0
TARGET = 1.5
PHASES = ("acting", "sending", "waiting for emulators", "learning")


def _trial(rollout_steps: int, **settings: Any) -> Any:
    from mean_actor_critic.engines import devices
    from mean_actor_critic.engines.vector import Trial
    from mean_actor_critic.environments.atari import find_game
    from mean_actor_critic.spec.atari_experiment import make_atari_experiment

    devices.prepare("atari")
    chosen = {"rollout_steps": rollout_steps, "environments": ENVIRONMENTS, **settings}
    experiment = make_atari_experiment(GAME, "mac", 1, 10**9, 0, chosen)
    return Trial(experiment, 0, find_game(experiment.setup))


def _turns(trial: Any, seconds: float) -> int:
    """Turns in so many seconds."""
    until, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        trial.turn()
        turns += 1
    return turns


def train(
    rollout_steps: int,
    warm_up: float,
    seconds: float,
    pipelined: bool = False,
    native: bool = True,
) -> Measurement:
    """Agent steps of one trial in some seconds, after a warm-up that compiles.

    `native`: convolutions in C++, as `mac train` has where there is a compiler.
    """
    import jax

    from mean_actor_critic.learning import native as convolutions

    if not native:
        os.environ[convolutions.SWITCH] = "0"
    trial = _trial(rollout_steps, pipelined=pipelined)
    if native and convolutions.compiler() is None:
        raise SystemExit("without a C++ compiler this would not measure what mac train does with one")
    _turns(trial, warm_up)
    jax.block_until_ready(trial.state)
    started = time.perf_counter()
    turns = _turns(trial, seconds)
    jax.block_until_ready(trial.state)
    return {"steps": turns * ENVIRONMENTS, "seconds": time.perf_counter() - started}


def where_time_goes(rollout_steps: int, warm_up: float, seconds: float) -> dict[str, float]:
    """Milliseconds of each phase for one step of all environments; each phase is waited for, so nothing overlaps."""
    import jax

    trial = _trial(rollout_steps)
    _turns(trial, warm_up)
    spent = dict.fromkeys(PHASES, 0.0)

    def timed(owner: Any, name: str, phase: str) -> None:
        inner = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = jax.block_until_ready(inner(*arguments))
            spent[phase] += time.perf_counter() - started
            return result

        setattr(owner, name, call)

    timed(trial, "_forward", "acting")
    timed(trial, "_choose", "acting")
    timed(trial, "_learn", "learning")
    timed(trial._emulators, "send", "sending")
    timed(trial._emulators, "receive", "waiting for emulators")
    started = time.perf_counter()
    turns = _turns(trial, seconds)
    whole = time.perf_counter() - started
    spent["the rest"] = whole - sum(spent.values())
    return {phase: 1000 * value / turns for phase, value in spent.items()}


def raw(warm_up: float, seconds: float) -> Measurement:
    """The emulators alone, with random actions."""
    from ale_py.vector_env import AtariVectorEnv

    emulators = AtariVectorEnv(ROM, ENVIRONMENTS, reward_clipping=False)
    emulators.reset(seed=0)
    random = np.random.default_rng(0)

    def play(seconds: float) -> int:
        until, turns = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            emulators.step(random.integers(emulators.single_action_space.n, size=ENVIRONMENTS))
            turns += 1
        return turns

    play(warm_up)
    started = time.perf_counter()
    return {"steps": play(seconds) * ENVIRONMENTS, "seconds": time.perf_counter() - started}


def report() -> str:
    times = {"warm_up": WARM_UP, "seconds": SECONDS}
    variants: dict[str, Any] = {"emulators alone": (raw, times)}
    for n in (1, 5):
        variants[f"n = {n}, here"] = (train, {"rollout_steps": n, **times})
        torch = {"game": ROM, "environments": ENVIRONMENTS, "rollout_steps": n, **times}
        variants[f"n = {n}, PyTorch"] = (pytorch_atari.train, torch)
        variants[f"n = {n}, here, XLA's convolutions"] = (train, {"rollout_steps": n, "native": False, **times})
    variants["n = 1, here, pipelined"] = (train, {"rollout_steps": 1, "pipelined": True, **times})
    results = alternating(variants, REPEATS)
    rows = [[name, *speed_cells(results["n = 1, here"], found)] for name, found in results.items()]
    ratios = ", ".join(
        f"{in_turn_ratio(results[f'n = {n}, here'], results[f'n = {n}, PyTorch']):.2f} (n = {n})" for n in (1, 5)
    )
    phases = {n: in_new_process(where_time_goes, {"rollout_steps": n, **times}) for n in (1, 5)}
    spent = [[phase, *(f"{phases[n][phase]:.2f}" for n in phases)] for phase in phases[1]]
    limit = median(rates(results["emulators alone"]))
    share = median(rates(results["n = 1, here"])) / limit
    return f"""## Atari

MAC on Pong at the paper's settings, one trial, {ENVIRONMENTS} environments. Agent steps per second (four frames each),
median and range of {REPEATS} turns of {SECONDS:g} s. *Ratio*: the speed of “n = 1, here” over the row's, median of
the turns. The PyTorch loop does the same work with the same emulators, channels last, on all cores. *pipelined* is the
setting that lets emulators play while the learner learns. *Here* has convolutions in C++, as `mac train` has; for
comparison it was also measured with XLA's.

{table(["", "steps/s", "range", "ratio"], rows)}

Speed over PyTorch's (wanted: {TARGET}): {ratios}. Training at n = 1 reaches {share:.2f} of the emulators' own speed.

Where the time goes, in milliseconds for one step of all environments, each phase waited for:

{table(["", "n = 1", "n = 5"], spent)}
"""

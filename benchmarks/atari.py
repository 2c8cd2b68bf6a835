"""Steps per second of training on Pong beside a plain PyTorch loop, where time goes, and what the emulators allow."""

import importlib.util
import os
import time
from typing import Any, NamedTuple

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

GAME, ROM = "ALE/Pong-v5", "pong"
TARGET = 1.5
PHASES = ("acting", "sending", "waiting for emulators", "learning")


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    environments: int = 16
    warm_up: float = 5.0  # seconds, as below
    seconds: float = 10.0
    rollouts: tuple[int, ...] = (1, 5)  # what is called n in the tables; 1 has to be among them


TOY = Size(1, 2, 0.01, 0.1, (1,))


def _trial(environments: int, rollout_steps: int, **settings: Any) -> Any:
    from mean_actor_critic.engines import devices
    from mean_actor_critic.engines.vector import Trial
    from mean_actor_critic.environments.atari import find_game
    from mean_actor_critic.spec.experiment import make_experiment

    devices.prepare("atari")
    chosen = {"rollout_steps": rollout_steps, "environments": environments, **settings}
    experiment = make_experiment(GAME, "mac", 1, 10**9, 0, chosen, engine="atari")
    return Trial(experiment, 0, find_game(GAME, experiment.rules))


def _turns(trial: Any, seconds: float) -> int:
    """Turns in so many seconds."""
    until, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        trial.turn()
        turns += 1
    return turns


def train(
    environments: int,
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
    trial = _trial(environments, rollout_steps, pipelined=pipelined)
    if native and convolutions.compiler() is None:
        raise RuntimeError("without a C++ compiler this would not measure what mac train does with one")
    _turns(trial, warm_up)
    jax.block_until_ready(trial.state)
    started = time.perf_counter()
    turns = _turns(trial, seconds)
    jax.block_until_ready(trial.state)
    return {"steps": turns * environments, "seconds": time.perf_counter() - started}


def where_time_goes(environments: int, rollout_steps: int, warm_up: float, seconds: float) -> dict[str, float]:
    """Milliseconds of each phase for one step of all environments; each phase is waited for, so nothing overlaps."""
    import jax

    trial = _trial(environments, rollout_steps)
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


def raw(environments: int, warm_up: float, seconds: float) -> Measurement:
    """The emulators alone, with random actions."""
    from ale_py.vector_env import AtariVectorEnv

    emulators = AtariVectorEnv(ROM, environments, reward_clipping=False)
    emulators.reset(seed=0)
    random = np.random.default_rng(0)

    def play(seconds: float) -> int:
        until, turns = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            emulators.step(random.integers(emulators.single_action_space.n, size=environments))
            turns += 1
        return turns

    play(warm_up)
    started = time.perf_counter()
    return {"steps": play(seconds) * environments, "seconds": time.perf_counter() - started}


def measure(size: Size) -> str:
    run = {"environments": size.environments, "warm_up": size.warm_up, "seconds": size.seconds}
    has_torch = importlib.util.find_spec("torch") is not None
    variants: dict[str, Any] = {"emulators alone": (raw, run)}
    for n in size.rollouts:
        variants[f"n = {n}, here"] = (train, {"rollout_steps": n, **run})
        if has_torch:
            variants[f"n = {n}, PyTorch"] = (pytorch_atari.train, {"game": ROM, "rollout_steps": n, **run})
        variants[f"n = {n}, here, XLA's convolutions"] = (train, {"rollout_steps": n, "native": False, **run})
    variants["n = 1, here, pipelined"] = (train, {"rollout_steps": 1, "pipelined": True, **run})
    results = alternating(variants, size.repeats)
    rows = [[name, *speed_cells(results["n = 1, here"], found)] for name, found in results.items()]
    phases = {n: in_new_process(where_time_goes, {"rollout_steps": n, **run}) for n in size.rollouts}
    spent = [[phase, *(f"{phases[n][phase]:.2f}" for n in phases)] for phase in phases[1]]
    limit = median(rates(results["emulators alone"]))
    share = median(rates(results["n = 1, here"])) / limit
    ratios = [
        f"{in_turn_ratio(results[f'n = {n}, here'], results[f'n = {n}, PyTorch']):.2f} (n = {n})"
        for n in size.rollouts
        if has_torch
    ]
    return f"""## Atari

MAC on Pong at the paper's settings, one trial, {size.environments} environments. Agent steps per second (four frames
each), median and range of {size.repeats} turns of {size.seconds:g} s. *Ratio*: the speed of “n = 1, here” over the
row's, median of the turns. The PyTorch loop does the same work with the same emulators, channels last, on all cores.
*pipelined* is the setting that lets emulators play while the learner learns. *Here* has convolutions in C++, as `mac
train` has; for comparison it was also measured with XLA's.

{table(["", "steps/s", "range", "ratio"], rows)}

Speed over PyTorch's (wanted: {TARGET}): {", ".join(ratios) or "it is not installed"}. Training at n = 1 reaches
{share:.2f} of the emulators' own speed.

Where the time goes, in milliseconds for one step of all environments, each phase waited for:

{table(["", *(f"n = {n}" for n in phases)], spent)}
"""

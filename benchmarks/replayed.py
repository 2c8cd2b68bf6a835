"""Steps per second of training at the general setting beside Stable-Baselines3's DQN, and the arithmetic in them.

Of matrix products only, as in `updates`: in an update, each replayed row goes through every network and its lagging
copy forward, and through the network backward. With F operations of a row's forward pass, F1 of them in the first
layer, these are 4 F - F1 operations for each row and network.
"""

import time
from typing import Any, NamedTuple

from benchmarks import stable_baselines, updates
from benchmarks.harness import Measurement, alternating, median, rates, speed_cells, table
from mean_actor_critic.engines import devices, stepped_study
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.spaces import fitted
from mean_actor_critic.spec.experiment import Budget, make_experiment
from mean_actor_critic.spec.learners import GENERAL, STEPS, ReplayedSetup

ENVIRONMENT = "CartPole-v1"
PEER = "Stable-Baselines3 DQN, one PyTorch thread"


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: tuple[int, ...] = (1, 20)
    warm_up: int = 4000  # agent steps of each trial before anything is timed: the first 500 are without updates
    steps: int = 20_000  # timed, of each trial
    peer_steps: int = 5000
    matrix: int = 2048
    seconds: float = 1.0  # of matrix products


TOY = Size(1, (1, 2), 4, 520, 150, 64, 0.01)


def train(trials: int, warm_up: int, steps: int) -> Measurement:
    """Train on Cart Pole with the general setting, and time so many steps of each trial after a warm-up."""
    devices.prepare()
    environment, budget = find_environment(ENVIRONMENT), Budget(STEPS, warm_up + steps)
    experiment = make_experiment(ENVIRONMENT, "mac", trials, budget, seed=0, settings={}, learner=GENERAL)
    experiment = fitted(experiment, environment.spaces)
    width = stepped_study.choose_width(experiment, trials)
    study = stepped_study.SteppedStudy(experiment, environment, width, None, WorkerLimits())
    while study.steps_taken < trials * warm_up:
        study.advance()
    before, started = study.steps_taken, time.perf_counter()
    while not study.finished:
        study.advance()
    return {"steps": study.steps_taken - before, "seconds": time.perf_counter() - started}


def train_dqn(warm_up: int, steps: int) -> Measurement:
    """Train Stable-Baselines3's DQN with as many updates a step, rows in each and units as the general setting."""
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)  # of small networks, with which more of them only wait for each other
    setup = ReplayedSetup()
    policy: dict[str, Any] = {"net_arch": list(setup.hidden)}
    model = DQN(
        "MlpPolicy",
        ENVIRONMENT,
        batch_size=setup.sequences * setup.sequence_length,
        train_freq=1,
        gradient_steps=setup.updates_per_step // setup.environments,
        learning_starts=min(setup.warm_up, warm_up // 2),
        policy_kwargs=policy,
        seed=0,
        device="cpu",
    )
    model.learn(warm_up)
    before, started = model.num_timesteps, time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return {"steps": model.num_timesteps - before, "seconds": time.perf_counter() - started}


def flop_per_step(setup: ReplayedSetup, inputs: int, actions: int) -> float:
    """Of all updates, for each agent step, by the formula above."""
    first, forward = updates.layer_flop(setup.hidden, inputs, actions)
    rows = setup.sequences * (setup.sequence_length + 1)
    each = (setup.critics + 1) * rows * (4 * forward - first)
    return each * setup.updates_per_step / setup.environments


def measure(size: Size) -> str:
    names = {trials: f"{trials} {'trial' if trials == 1 else 'trials'}" for trials in size.trials}
    product = "product"
    variants: dict[str, Any] = {product: (updates.matrix_product, {"matrix": size.matrix, "seconds": size.seconds})}
    for trials, name in names.items():
        variants[name] = (train, {"trials": trials, "warm_up": size.warm_up, "steps": size.steps})
    if stable_baselines.available():
        variants[PEER] = (train_dqn, {"warm_up": size.warm_up // 4, "steps": size.peer_steps})
    results = alternating(variants, size.repeats)
    peak = median(m["gflops"] for m in results.pop(product))
    spaces, setup = find_environment(ENVIRONMENT).spaces, ReplayedSetup()
    flop = flop_per_step(setup, spaces.observation_size, spaces.actions)
    slowest = PEER if PEER in results else names[size.trials[0]]
    rows = []
    for name, measurements in results.items():
        speed, spread, slower = speed_cells(results[slowest], measurements)
        arithmetic = ["", ""]
        if name != PEER:
            gflops = median(rates(measurements)) * flop / 1e9
            arithmetic = [f"{gflops:.3g}", f"{100 * gflops / peak:.0f} %"]
        rows.append([name, speed, spread, f"{1 / float(slower):.3g}", *arithmetic])
    per_step, batch = setup.updates_per_step / setup.environments, setup.sequences * setup.sequence_length
    return f"""## The general setting

{ENVIRONMENT}, `mac train` as it comes: {per_step:g} updates an agent step with {batch} replayed steps each,
networks of {" × ".join(map(str, setup.hidden))} units; {setup.critics + 1} of them, and a lagging copy of each.
Stable-Baselines3's DQN has one and its copy, and as many updates, rows and units. Agent steps per second after a
warm-up, median and range of {size.repeats} turns; *times faster* than {slowest}, median of the turns.
*GFLOP/s* are those of the updates' matrix products over all the time that training takes, beside the {peak:.3g} of a
product of {size.matrix} × {size.matrix} matrices on all cores; a trial alone has one of them.

{table(["", "steps/s", "range", "times faster", "GFLOP/s", "of the peak"], rows)}
{stable_baselines.note()}"""

"""Environments stepped with random actions and no learning, timed: in plain processes, by our workers, by Gymnasium.

No JAX here, neither in this process nor in those that it starts. Each way is a generator of turns, in which every
environment takes a step or a reset: how many steps were taken, and how many episodes have ended.
"""

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from benchmarks.harness import Measurement
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted.factory import Factory
from mean_actor_critic.environments.hosted.fleet import Fleet, WorkerLimits

Turns = Iterator[tuple[int, int]]


def timed(turns: Turns, warm_up: float, seconds: float) -> Measurement:
    """Take turns for so many seconds, after a warm-up."""
    until = time.perf_counter() + warm_up
    while time.perf_counter() < until:
        next(turns)
    steps = episodes = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        turn = next(turns)
        steps += turn[0]
        episodes += turn[1]
    return {"steps": steps, "seconds": elapsed, "episode_length": steps / max(1, episodes)}


# --- plain processes -------------------------------------------------------------------------------------------------


def in_plain_processes(
    environment: str, environments: int, processes: int, warm_up: float, seconds: float
) -> Measurement:
    """The upper bound: an even share of the environments in each process, which does nothing but step them."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(processes)
    with context.Pool(processes, _share, (together,)) as pool:
        # one job each: whoever has begun waits for the others
        jobs = [(environment, environments // processes, warm_up, seconds, number) for number in range(processes)]
        shares = pool.starmap(_step_share, jobs, chunksize=1)
    steps = sum(share["steps"] for share in shares)
    episodes = sum(share["steps"] / share["episode_length"] for share in shares)
    return {"steps": steps, "seconds": max(s["seconds"] for s in shares), "episode_length": steps / episodes}


def _share(together: Any) -> None:
    global _together
    _together = together


def _step_share(environment: str, environments: int, warm_up: float, seconds: float, seed: int) -> Measurement:
    turns = round_robin(environment, environments, seed)
    next(turns)
    _together.wait()
    return timed(turns, warm_up, seconds)


def round_robin(environment: str, environments: int, seed: int) -> Turns:
    """Step environments in this process, one after the other."""
    make = Factory(environment)
    worlds = [make() for _ in range(environments)]
    for number, world in enumerate(worlds):
        world.reset(seed=seed * environments + number)
    draw = np.random.default_rng(seed)
    actions = int(worlds[0].action_space.n)
    while True:
        ended = 0
        for world, action in zip(worlds, draw.integers(actions, size=environments).tolist(), strict=True):
            _, _, terminated, truncated, _ = world.step(action)
            if terminated or truncated:
                world.reset()
                ended += 1
        yield environments, ended


# --- our workers -----------------------------------------------------------------------------------------------------


def in_our_workers(environment: str, environments: int, workers: int, warm_up: float, seconds: float) -> Measurement:
    """The hosted engine's worker processes and shared board, without policies and learners."""
    spec = find_environment(environment)
    lanes = np.arange(environments)
    cohorts = [lanes[worker::workers] for worker in range(workers)]
    limits = WorkerLimits(workers)
    fleet = Fleet(spec.name, spec.build, spec.spaces, spec.max_episode_steps, cohorts, limits)
    try:
        return timed(_turns_of(fleet, cohorts, spec.spaces.actions), warm_up, seconds)
    finally:
        fleet.close()


def _turns_of(fleet: Fleet, cohorts: list[Any], actions: int) -> Turns:
    draw, board = np.random.default_rng(0), fleet.board

    def send(cohort: int) -> None:
        lanes = cohorts[cohort]
        running = board.status[lanes] == boards.RUNNING
        playing = lanes[running]
        board.action[playing, board.time[playing]] = draw.integers(actions, size=len(playing))
        board.command[playing] = boards.STEP
        for lane in lanes[~running].tolist():
            fleet.begin(lane, lane, 0, int(draw.integers(2**31)))
        fleet.send(cohort)

    for cohort in range(len(cohorts)):
        send(cohort)
    while True:
        for cohort in fleet.receive():
            stepped = board.command[cohorts[cohort]] == boards.STEP
            ended = stepped & (board.status[cohorts[cohort]] != boards.RUNNING)
            yield int(stepped.sum()), int(ended.sum())
            send(cohort)


# --- Gymnasium -------------------------------------------------------------------------------------------------------


def by_gymnasium(environment: str, environments: int, warm_up: float, seconds: float) -> Measurement:
    """Gymnasium's AsyncVectorEnv, which has a process for each environment."""
    vector = AsyncVectorEnv([Factory(environment)] * environments)
    try:
        return timed(_vector_turns(vector), warm_up, seconds)
    finally:
        vector.close()


def _vector_turns(vector: AsyncVectorEnv) -> Turns:
    draw = np.random.default_rng(0)
    actions = int(vector.single_action_space.n)
    vector.reset(seed=0)
    resetting = 0  # an ended environment spends its next turn on a reset
    while True:
        _, _, terminated, truncated, _ = vector.step(draw.integers(actions, size=vector.num_envs))
        ended = int(np.sum(terminated | truncated))
        yield vector.num_envs - resetting, ended
        resetting = ended

"""Arithmetic speed of the learner's updates beside the largest that the machine's matrix products reach.

Only matrix products are counted, two operations for each multiply-and-add. With F operations of one row's forward pass
through a network, F1 of them in its first layer (whose input needs no gradient):

    critic, each row of each minibatch:   2 F targets + F forward + 2 F - F1 backward
    policy, each state of the episode:    F values    + F forward + 2 F - F1 backward

An episode here has its full length, so nothing is padding. Sampling, softmax, Adam and memory traffic cost time only.
"""

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.engine import ENVIRONMENT, REFERENCE
from benchmarks.harness import Measurement, alternating, median, table
from mean_actor_critic.engines import compiled, devices
from mean_actor_critic.engines.updates import NO_SCHEDULE, Carried, update
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.learners import Shapes

SETTINGS = {
    "64 units, 10 minibatches of 32": REFERENCE,
    "300 × 300 units, 10 minibatches of 64": {**REFERENCE, "hidden": [300, 300], "batch_size": 64},
}


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: int = 100
    seconds: float = 1.0  # of calls in each measurement
    matrix: int = 2048


TOY = Size(1, 2, 0.01, 64)


def layer_flop(hidden: Sequence[int], inputs: int, outputs: int) -> tuple[int, int]:
    """Of a row's forward pass through a perceptron: in the first layer, and in all."""
    layers = [2 * before * after for before, after in itertools.pairwise((inputs, *hidden, outputs))]
    return layers[0], sum(layers)


def flop_per_update(setup: Any, limit: int, observation_size: int, actions: int) -> int:
    """Of one trial after one full-length episode, by the formula above."""
    first, forward = layer_flop(setup.hidden, observation_size, actions)
    critic = setup.minibatches * setup.batch_size * (5 * forward - first)
    policy = limit * (4 * forward - first)
    return critic + policy


def updates(settings: dict[str, Any], trials: int, seconds: float) -> Measurement:
    """GFLOP/s of the vmapped update at the engine's width, on all devices as the engine spreads it."""
    devices.prepare()
    spaces = find_environment(ENVIRONMENT).spaces
    experiment = make_experiment(ENVIRONMENT, "mac", trials, 1, 0, settings)
    setup, limit = experiment.setup, experiment.rules.max_episode_steps
    width = compiled.choose_width(setup, trials, compiled.device_count())
    flop = flop_per_update(setup, limit, spaces.observation_size, spaces.actions)
    lanes = width * compiled.device_count()
    mesh = devices.mesh(compiled.device_count())
    lane = PartitionSpec(devices.AXIS)
    state = compiled.initialiser(setup, Shapes((spaces.observation_size,), spaces.actions))(0, jnp.arange(lanes))
    hyper = jax.tree.map(lambda x: jnp.broadcast_to(x[0], (lanes,)), experiment.hyper_of_trials())
    state, hyper, batch = jax.device_put(
        (state, hyper, _full_episodes(limit, spaces.observation_size, lanes)), NamedSharding(mesh, lane)
    )
    repeats = max(1, math.ceil(1e9 / (flop * width)))  # in one call, so that calling costs nothing

    context = Context(jnp.int32(limit), jnp.int32(NO_SCHEDULE))

    def learn(hyper: Any, state: Carried, batch: Batch) -> Carried:
        def body(number: Any, state: Carried) -> Carried:
            keys = jax.random.split(jax.random.key(number), width)
            return jax.vmap(functools.partial(update, setup, context))(hyper, state, batch, keys)[0]

        return jax.lax.fori_loop(0, repeats, body, state)

    program = jax.jit(jax.shard_map(learn, mesh=mesh, in_specs=lane, out_specs=lane, check_vma=False))
    of_a_call = _seconds_per_call(lambda: program(hyper, state, batch), seconds)
    return {"gflops": flop * lanes * repeats / of_a_call / 1e9, "width": width}


def matrix_product(matrix: int, seconds: float) -> Measurement:
    """GFLOP/s of one large float32 product in a process with JAX's default single device."""
    x = jax.random.normal(jax.random.key(0), (matrix, matrix))
    program = jax.jit(jnp.dot)
    return {"gflops": 2 * matrix**3 / _seconds_per_call(lambda: program(x, x), seconds) / 1e9}


def _full_episodes(steps: int, observation_size: int, lanes: int) -> Batch:
    return Batch(
        observation=jax.random.normal(jax.random.key(0), (lanes, steps + 1, observation_size)),
        action=jnp.zeros((lanes, steps), jnp.int32),
        reward=jnp.ones((lanes, steps)),
        terminated=jnp.zeros((lanes, steps), bool),
        valid=jnp.ones((lanes, steps), bool),
    )


def _seconds_per_call(call: Callable[[], Any], seconds: float) -> float:
    jax.block_until_ready(call())
    started, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        jax.block_until_ready(call())
        calls += 1
    return elapsed / calls


def measure(size: Size) -> str:
    product = f"product of {size.matrix} × {size.matrix} matrices"
    run = {"trials": size.trials, "seconds": size.seconds}
    results = alternating(
        {
            product: (matrix_product, {"matrix": size.matrix, "seconds": size.seconds}),
            **{name: (updates, {"settings": settings, **run}) for name, settings in SETTINGS.items()},
        },
        size.repeats,
    )
    speeds = {name: median(m["gflops"] for m in measurements) for name, measurements in results.items()}
    rows = [
        [
            name,
            f"{results[name][0]['width']:.0f}" if name in SETTINGS else "",
            f"{speed:.3g}",
            f"{100 * speed / speeds[product]:.0f} %",
        ]
        for name, speed in speeds.items()
    ]
    return f"""## Arithmetic of the updates

GFLOP/s in float32 of critic and policy updates after an episode, all devices; median of {size.repeats} turns. The
count is of matrix products only, by the formula in `updates.py`. *Group*: trials that one device runs together.

{table(["", "group", "GFLOP/s", "of the peak"], rows)}
"""

"""The compiled programs of the Atari engine: acting, learning, and the random numbers of many steps.

XLA runs a program of at most eight operations in the thread that calls it, and spreads a longer one over its threads,
which takes longer. Hence the forward pass is a program by itself.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.learning.kernels import log_softmax
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import inverse_cdf, softmax, sum_over_actions
from mean_actor_critic.learning.randomness import evaluation_draws, step_draws, weights_key
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.learners import Shapes
from mean_actor_critic.trees import Array as HostArray

DRAWN = 64  # steps whose random numbers are drawn at once
_AHEAD = np.arange(DRAWN, dtype=np.uint32)


@functools.cache
def initialiser(setup: Any, shapes: Shapes) -> Callable[..., Any]:
    """Compiled `(seed [], trial []) -> learner's state`: a trial before its first step."""
    return jax.jit(lambda seed, trial: learner_of(setup).init(setup, shapes, weights_key(seed, trial)))


@functools.cache
def forward_program(setup: Any) -> Callable[..., Any]:
    """Compiled `(actor, observation [n]) -> outputs`, without the observation."""

    def forward(actor: Any, observation: Array) -> Any:
        return learner_of(setup).act(setup, actor, observation)._replace(observation=None)

    return jax.jit(forward)


@functools.cache
def choosing_program(greedy: bool = False) -> Callable[..., tuple[Array, Array]]:
    """Compiled `(logits [n, actions], draws [n]) -> action [n], entropy [n]`."""

    def choose(logits: Array, draws: Array) -> tuple[Array, Array]:
        policy = softmax(logits)
        chosen = jnp.argmax(logits, -1) if greedy else inverse_cdf(policy, draws)
        return chosen.astype(jnp.int32), -sum_over_actions(policy * log_softmax(logits))

    return jax.jit(choose)


@functools.cache
def drawing_program(environments: int) -> Callable[..., Array]:
    """Compiled `(seed, trial, step) -> draws [DRAWN, environments]`, for so many steps of training from one on."""

    def draw(seed: Array, trial: Array, step: Array) -> Array:
        return jax.vmap(lambda ahead: step_draws(seed, trial, step + ahead, environments))(_AHEAD)

    return jax.jit(draw)


@functools.cache
def evaluation_drawing_program(environments: int) -> Callable[..., Array]:
    """Compiled `(seed, trial, evaluation, step) -> draws [DRAWN, environments]`, the same for an evaluation."""

    def draw(seed: Array, trial: Array, evaluation: Array, step: Array) -> Array:
        return jax.vmap(lambda ahead: evaluation_draws(seed, trial, evaluation, step + ahead, environments))(_AHEAD)

    return jax.jit(draw)


class Draws:
    """The uniform draws of steps one after the other, made for many at once."""

    def __init__(self, program: Callable[..., Array], *keys: Any) -> None:
        self._program, self._keys = program, keys
        self._first = -1

    def of(self, step: int) -> HostArray:
        """Those of a step [environments]."""
        first = step - step % DRAWN
        if first != self._first:
            self._made, self._first = np.asarray(self._program(*self._keys, np.uint32(first))), first
        return self._made[step - first]


@functools.cache
def valuing_program(setup: Any) -> Callable[..., Array]:
    """Compiled `(actor, observation [n]) -> state values [n]`."""
    learner = learner_of(setup)
    assert learner.value is not None
    value = learner.value
    return jax.jit(lambda actor, seen: value(setup, learner.act(setup, actor, seen)))


@functools.cache
def learning_program(setup: Any) -> Callable[..., Any]:
    """Compiled `(hyper, state, batch, context) -> learner's state`.

    The state given is consumed, except with `pipelined`, where its actor is still acting.
    """

    def learn(hyper: Any, state: Any, batch: Batch, context: Context) -> Any:
        return learner_of(setup).learn(setup, context, hyper, state, batch, None)[0]

    return jax.jit(learn, donate_argnums=() if setup.pipelined else 1)

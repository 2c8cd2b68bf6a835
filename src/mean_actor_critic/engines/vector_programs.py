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

from mean_actor_critic.learning import kernels, native
from mean_actor_critic.learning import rollout as shared_trunk
from mean_actor_critic.learning.kernels import Trunk, log_softmax
from mean_actor_critic.learning.networks import (
    Activations,
    GameNetwork,
    game_outputs,
    inverse_cdf,
    softmax,
    sum_over_actions,
)
from mean_actor_critic.learning.randomness import evaluation_draws, step_draws, weights_key
from mean_actor_critic.learning.rollout import GameLearnerState, Rollout
from mean_actor_critic.spec.atari_experiment import AtariHyper, AtariSetup

HostArray = np.ndarray[Any, Any]
DRAWN = 64  # steps whose random numbers are drawn at once
_AHEAD = np.arange(DRAWN, dtype=np.uint32)


@functools.cache
def initialiser(setup: AtariSetup, actions: int) -> Callable[..., GameLearnerState]:
    """Compiled `(seed [], trial []) -> GameLearnerState`: a trial before its first step."""

    def initial(seed: Array, trial: Array) -> GameLearnerState:
        return shared_trunk.initial_state(setup, actions, weights_key(seed, trial))

    return jax.jit(initial)


def trunk() -> Trunk:
    """How to convolve here."""
    return native.NATIVE if native.compiler() else kernels.XLA


@functools.cache
def forward_program() -> Callable[..., Activations]:
    """Compiled `(network, observation [n]) -> activations`, without the observation."""

    def forward(network: GameNetwork, observation: Array) -> Activations:
        return game_outputs(network, observation, trunk().forward)._replace(observation=None)

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
def valuing_program(setup: AtariSetup) -> Callable[..., Array]:
    """Compiled `(network, observation [n]) -> state values [n]`."""
    return jax.jit(lambda net, seen: shared_trunk.state_values(setup, game_outputs(net, seen, trunk().forward)))


@functools.cache
def learning_program(setup: AtariSetup) -> Callable[..., GameLearnerState]:
    """Compiled `(hyper, state, rollout, acted, after, updates, decided) -> GameLearnerState`.

    `after` is the observation after the rollout, from which it bootstraps; with `pipelined`, the forward pass from it.
    The state given is consumed, except with `pipelined`, where its network is still acting.
    """

    def learn(
        hyper: AtariHyper, state: GameLearnerState, rollout: Rollout, acted: tuple[Activations, ...],
        after: Any, updates: Array, decided: GameNetwork | None,
    ) -> GameLearnerState:  # fmt: skip
        outputs = after if setup.pipelined else game_outputs(state.network, after, trunk().forward)
        last_value = shared_trunk.state_values(setup, outputs)
        back = trunk().backward
        return shared_trunk.update(setup, hyper, state, rollout, acted, last_value, updates, back, decided)

    return jax.jit(learn, donate_argnums=() if setup.pipelined else 1)

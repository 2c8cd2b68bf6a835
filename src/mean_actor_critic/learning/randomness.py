"""All randomness of a trial, by its seed, number and episode; never by its place in a batch or the engine."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int

_WEIGHTS = 2**32 - 1  # numbers that no episode has
_EVALUATION = 2**32 - 2
_STEPS = 2**32 - 3


class EpisodeKeys(NamedTuple):
    """A key for each use in one episode."""

    environment: Array
    actions: Array
    minibatches: Array


def _trial_key(seed: Int[Array, ""], trial: Int[Array, ""]) -> Array:
    return jax.random.fold_in(jax.random.key(seed), trial)


def weights_key(seed: Int[Array, ""], trial: Int[Array, ""]) -> Array:
    """For the first weights of a trial."""
    return jax.random.fold_in(_trial_key(seed, trial), _WEIGHTS)


def training_keys(seed: Int[Array, ""], trial: Int[Array, ""], episode: Int[Array, ""]) -> EpisodeKeys:
    """For an episode of training, counted from 0."""
    return EpisodeKeys(*jax.random.split(jax.random.fold_in(_trial_key(seed, trial), episode), 3))


def evaluation_keys(seed: Int[Array, ""], trial: Int[Array, ""], episode: Int[Array, ""]) -> EpisodeKeys:
    """For an episode of evaluation, which is never one of training."""
    key = jax.random.fold_in(jax.random.fold_in(_trial_key(seed, trial), _EVALUATION), episode)
    return EpisodeKeys(*jax.random.split(key, 3))


class StepKeys(NamedTuple):
    """A key for each use in one step of all environments of a trial."""

    environment: Array
    actions: Array
    minibatches: Array


def stepping_keys(seed: Int[Array, ""], trial: Int[Array, ""], step: Int[Array, ""]) -> StepKeys:
    """For a step of training, counted from 0; the environments begin with what would be the step before the first."""
    key = jax.random.fold_in(jax.random.fold_in(_trial_key(seed, trial), _STEPS), step + 1)
    return StepKeys(*jax.random.split(key, 3))


def action_draws(keys: EpisodeKeys, steps: int) -> Float[Array, " time"]:
    """The uniform draws in [0, 1) that pick an episode's actions."""
    return jax.random.uniform(keys.actions, (steps,))


def step_draws(
    seed: Int[Array, ""], trial: Int[Array, ""], step: Int[Array, ""], environments: int
) -> Float[Array, " environments"]:
    """The uniform draws that pick the actions of a step of training in all of a trial's environments."""
    return jax.random.uniform(jax.random.fold_in(_trial_key(seed, trial), step), (environments,))


def evaluation_draws(
    seed: Int[Array, ""], trial: Int[Array, ""], evaluation: Int[Array, ""], step: Int[Array, ""], environments: int
) -> Float[Array, " environments"]:
    """The same for a step of an evaluation, which is never one of training."""
    key = jax.random.fold_in(jax.random.fold_in(_trial_key(seed, trial), _EVALUATION), evaluation)
    return jax.random.uniform(jax.random.fold_in(key, step), (environments,))

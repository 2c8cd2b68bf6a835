"""From a gradient to new weights: how learners take a step."""

from typing import Any

import jax

from mean_actor_critic.learning.optimizers import directions
from mean_actor_critic.learning.types import PolicyStep


def optimizer_step(optimizer: Any) -> PolicyStep:
    """A step of an optimiser, by its name in OPTIMIZERS or its traced place among them."""
    transform = directions(optimizer)

    def step(weights: Any, gradient: Any, state: Any, learning_rate: Any) -> tuple[Any, Any]:
        direction, state = transform.update(gradient, state)
        return jax.tree.map(lambda weight, move: weight - learning_rate * move, weights, direction), state

    return PolicyStep(transform.init, step)

"""The optimisers of the paper's search, as directions of descent for learning rate 1; optax does the work.

An optimiser is chosen by name, when a program is compiled, or by a traced number, while it runs: then one compiled
program serves all of them. All share one form of state for that, of which each uses what it needs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from mean_actor_critic.spec.learners import ANY, OPTIMIZERS


class Slots(NamedTuple):
    """The state of whichever optimiser."""

    steps: Int[Array, ""]  # taken so far
    first: Any  # like the weights
    second: Any  # like the weights


class _Kind(NamedTuple):
    """An optax transformation, and how its state sits in the slots."""

    transform: optax.GradientTransformation
    unpack: Callable[[Slots], Any]
    pack: Callable[[Slots, Any], Slots]


_KINDS = {
    "sgd": _Kind(optax.identity(), lambda slots: optax.EmptyState(), lambda slots, state: slots),  # noqa: ARG005
    "adam": _Kind(
        optax.scale_by_adam(),
        lambda slots: optax.ScaleByAdamState(*slots),
        lambda slots, state: Slots(*state),  # noqa: ARG005
    ),
    "rmsprop": _Kind(
        optax.scale_by_rms(decay=0.9, eps=1e-7, eps_in_sqrt=False),
        lambda slots: optax.ScaleByRmsState(slots.second),
        lambda slots, state: slots._replace(second=state.nu),
    ),
    "adadelta": _Kind(
        optax.scale_by_adadelta(),
        lambda slots: optax.ScaleByAdaDeltaState(slots.second, slots.first),
        lambda slots, state: slots._replace(second=state.e_g, first=state.e_x),
    ),
}


def directions(choice: str | Int[Array, ""]) -> optax.GradientTransformation:
    """The optimiser of that name, or of that place in OPTIMIZERS. With ANY, only its `init` can be used."""
    if isinstance(choice, str) and choice != ANY:
        return _KINDS[choice].transform

    def init(weights: Any) -> Slots:
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return Slots(jnp.int32(0), zeros, zeros)

    def update(gradient: Any, slots: Slots, weights: Any = None) -> tuple[Any, Slots]:
        del weights

        def using(kind: _Kind) -> Callable[[Any, Slots], tuple[Any, Slots]]:
            def branch(gradient: Any, slots: Slots) -> tuple[Any, Slots]:
                direction, state = kind.transform.update(gradient, kind.unpack(slots))
                return direction, kind.pack(slots, state)

            return branch

        return jax.lax.switch(choice, [using(_KINDS[name]) for name in OPTIMIZERS], gradient, slots)

    return optax.GradientTransformation(init, update)

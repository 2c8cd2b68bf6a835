"""Memory that runs need: said beforehand, refused in one line, and never waited for in vain."""

import contextlib
import errno
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic import machine
from mean_actor_critic.engines.updates import initial
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import LimitError, OutOfMemoryError
from mean_actor_critic.files import LIMITS
from mean_actor_critic.files import in_words as words_of
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.spec.experiment import Experiment

# Copies of the learners' states in memory when they are most, measured. The hosted and Atari engines keep one, which
# NumPy sees where it is; the compiled engine also gathers its states, first from devices, where they are several, and
# then from blocks of trials. Writing a checkpoint makes two more: each array as bytes, and all of them as a file.
HELD = {"compiled": 2, "hosted": 1, "atari": 1}
WRITTEN = 2


def _held(experiment: Experiment) -> int:
    """Copies in memory while a checkpoint is gathered; those for writing and from several devices not counted."""
    if experiment.counts_updates and not experiment.is_game:
        return 1 if experiment.trials == 1 else 2  # of several groups, what they carry is joined
    return HELD[experiment.engine]


class Need(NamedTuple):
    """What a run takes at least."""

    size: int  # bytes at its peak
    less: str  # what would make it less, in words


def need(experiment: Experiment, spaces: Spaces, snapshots: Sequence[int] = (), writes: bool = True) -> Need:
    """The memory that a run takes for what it learns; programs and environments come on top.

    Args:
        experiment: what is run.
        spaces: of its environment.
        snapshots: moments from which networks are kept.
        writes: whether it writes checkpoints.
    """
    shapes = spaces.whole_shapes if experiment.engine == "atari" else spaces.flat_shapes
    one: Any = jax.eval_shape(functools.partial(initial, experiment.setup, shapes), jax.eval_shape(jax.random.key, 0))
    state, ring = (experiment.trials * _bytes_of(part) for part in (one.learner, one.replay))
    copies = _held(experiment) + WRITTEN * writes
    if experiment.engine == "compiled" and min(experiment.trials, len(jax.devices())) > 1:
        copies += 1
    actor = jax.eval_shape(functools.partial(learner_of(experiment.setup).actor, experiment.setup), one.learner)
    kept = len(snapshots) * experiment.trials * 2 * _bytes_of(actor) * (1 + WRITTEN * writes)
    ways = ["fewer trials"] if experiment.trials > 1 else []
    if ring > state:
        ways.append("a smaller replay_capacity")
    elif hasattr(experiment.setup, "hidden"):
        ways.append("smaller hidden layers")
    if kept > copies * (state + ring):
        ways.append("fewer snapshots")
    return Need(copies * (state + ring) + kept, " or ".join(ways) or "a smaller network")


def _bytes_of(tree: Any) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def require_memory(wanted: Need, what: str = "run") -> None:
    """Refuse what cannot fit, before it has begun.

    Raises:
        OutOfMemoryError: says how much is needed, how much there is, and what would make it less.
    """
    room = machine.room()
    if wanted.size > room.size:
        raise OutOfMemoryError(
            f"not enough memory for this {what}: it needs {in_words(wanted.size)}, and {in_words(room.size)} are "
            f"{room.bound}; {wanted.less} would need less"
        )


def in_words(size: int) -> str:
    """Bytes, for people."""
    return f"{size / 1e9:.1f} GB"


@contextlib.contextmanager
def memory_faults(what: str) -> Iterator[None]:
    """Turn a refusal of memory, files or processes, by Python, the system or XLA, into one line."""
    try:
        yield
    except (MemoryError, OSError, jax.errors.JaxRuntimeError) as fault:
        by_system = isinstance(fault, OSError) and fault.errno == errno.ENOMEM
        if isinstance(fault, MemoryError) or by_system or "RESOURCE_EXHAUSTED" in str(fault):
            raise OutOfMemoryError(f"not enough memory for this {what}: {fault}") from None
        if isinstance(fault, OSError) and fault.errno in LIMITS:
            raise LimitError(f"this {what} could not go on: {words_of(fault)}") from None
        raise


def joined(arrays: Sequence[Any]) -> Any:
    """Arrays of groups of trials [group's trials, …] as one [trials, …]; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def on_host(tree: Any) -> Any:
    """The arrays of a pytree as NumPy's, when they are computed.

    Raises:
        JaxRuntimeError: they could not be. NumPy alone would not notice: where a program that runs in the background
            was refused its memory, `np.asarray` waits for its results for ever, and only `block_until_ready` hears of
            the refusal.
    """
    return jax.tree.map(np.asarray, jax.block_until_ready(tree))

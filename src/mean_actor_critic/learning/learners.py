"""Finds the learner that a setup is for. Engines know learners by nothing else."""

import functools
import importlib
from typing import Any

import jax

from mean_actor_critic.learning.types import Learner
from mean_actor_critic.spec.learners import LEARNERS


def learner_of(setup: Any) -> Learner:
    """The learner whose settings these are."""
    return _loaded(setup.learner)


@functools.cache
def _loaded(name: str) -> Learner:
    """The learner of that name. Its numbers become arguments of compiled programs, which JAX has to know of."""
    spec = LEARNERS[name]
    jax.tree_util.register_dataclass(spec.hyper)
    learner: Learner = importlib.import_module(spec.module).LEARNER
    return learner

"""Finds the learner that a setup is for. Engines know learners by nothing else."""

import functools
import importlib
from typing import Any

import jax

from mean_actor_critic.learning.types import Learner
from mean_actor_critic.spec.learners import LEARNERS


def learner_of(setup: Any) -> Learner:
    """The learner whose settings these are."""
    return _loaded(setup.learner, setup.module)


@functools.cache
def _loaded(name: str, module: str) -> Learner:
    """The learner of that name in a module. Its numbers become arguments of compiled programs: JAX has to know them."""
    _register(name)
    learner: Learner = importlib.import_module(module).LEARNER
    return learner


@functools.cache
def _register(name: str) -> None:
    """Tell JAX of the numbers of a learner, once."""
    jax.tree_util.register_dataclass(LEARNERS[name].hyper)

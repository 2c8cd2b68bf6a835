"""Finds the learner that a setup is for. Engines know learners by nothing else."""

import importlib
from typing import Any

from mean_actor_critic.learning.types import Learner
from mean_actor_critic.spec.learners import LEARNERS


def learner_of(setup: Any) -> Learner:
    """The learner whose settings these are."""
    learner: Learner = importlib.import_module(LEARNERS[setup.learner].module).LEARNER
    return learner

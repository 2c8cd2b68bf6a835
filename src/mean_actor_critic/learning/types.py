"""The data that flows through a trial. Every array here belongs to ONE trial; vmap adds the rest."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.learning.networks import Network
from mean_actor_critic.learning.replay import Replay
from mean_actor_critic.spec.experiment import Hyper

jax.tree_util.register_dataclass(Hyper)


class Trajectory(NamedTuple):
    """One episode, padded to the time limit T. Steps after its end have `valid` false and repeat the last state."""

    observation: Float[Array, "time_plus_1 observation"]
    action: Int[Array, " time"]
    reward: Float[Array, " time"]
    terminated: Bool[Array, " time"]
    valid: Bool[Array, " time"]


class Evidence(NamedTuple):
    """All that an estimator may look at: the policy and critic in every state visited, and what came of it."""

    policy: Float[Array, "time action"]
    q: Float[Array, "time action"]  # zeros for algorithms without a critic
    returns: Float[Array, " time"]
    baseline: Float[Array, "*time"]  # one for all states, or one for each
    action: Int[Array, " time"]


class Normalizer(NamedTuple):
    """Mean and variance of all observations so far."""

    mean: Float[Array, " observation"]
    variance: Float[Array, " observation"]
    observations: Float[Array, ""]  # how many


class Actor(NamedTuple):
    """What decides on actions."""

    policy: Network
    normalizer: Normalizer | tuple[()]  # () unless observations are normalised


class RunningAverage(NamedTuple):
    """Exponential average of episode returns, kept as sum and weight so that young averages are unbiased."""

    total: Float[Array, ""]
    weight: Float[Array, ""]


class LearnerState(NamedTuple):
    """Everything that a trial carries from one episode to the next, and so everything that a resume needs."""

    policy: Network
    critic: Network
    policy_optimizer: Any
    critic_optimizer: Any
    replay: Replay | tuple[()]  # () where it is kept elsewhere
    average_return: RunningAverage
    normalizer: Normalizer | tuple[()]
    episode: Int[Array, ""]  # episodes played
    diverged_at: Int[Array, ""]  # the episode (from 1) whose update was not finite; 0: none

    @property
    def actor(self) -> Actor:
        """The part that plays."""
        return Actor(self.policy, self.normalizer)


class EpisodeMetrics(NamedTuple):
    """What is kept of an episode for the learning curves."""

    episode_return: Float[Array, ""]  # undiscounted
    length: Int[Array, ""]  # agent steps

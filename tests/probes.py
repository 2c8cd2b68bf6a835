"""Tiny environments with known answers. Each isolates one thing that a learner must get right."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv


class Probe(FuncEnv):
    """Two actions; the observation is the state; an episode ends in the state marked by a last entry of 1."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def observation(self, state, rng, params=None):
        return state

    def terminal(self, state, rng, params=None):
        return state[-1] == 1

    def initial(self, rng, params=None):
        return jnp.array([1.0, 0.0, 0.0])

    def transition(self, state, action, rng, params=None):
        return jnp.array([0.0, 0.0, 1.0])


class ConstantReward(Probe):
    """One step, reward 1: both values are 1."""

    def reward(self, state, action, next_state, rng, params=None):
        return 1.0


class RewardFromObservation(Probe):
    """One step, reward as observed, -1 or 1: the values are what is observed."""

    def initial(self, rng, params=None):
        return jnp.array([jax.random.rademacher(rng, ()).astype(jnp.float32), 0.0, 0.0])

    def reward(self, state, action, next_state, rng, params=None):
        return state[0]


class RewardFromAction(RewardFromObservation):
    """One step, reward 1 for action 1 where 1 is observed and for action 0 where -1 is, else -1."""

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.where((state[0] > 0) == (action == 1), 1.0, -1.0)


class TwoStepCredit(Probe):
    """Two steps; only the first action matters, and it is paid in the second step: 1 for action 1, -1 for action 0."""

    def transition(self, state, action, rng, params=None):
        first = jnp.array([0.0, jnp.where(action == 1, 1.0, -1.0), 0.0])
        return jnp.where(state[0] == 1, first, jnp.array([0.0, 0.0, 1.0]))

    def reward(self, state, action, next_state, rng, params=None):
        return state[1]


class Delay(Probe):
    """Action 0 ends it for nothing; action 1 costs 1 now and pays 2 a step later: worth twice the discount less 1."""

    def transition(self, state, action, rng, params=None):
        wait = (state[0] == 1) & (action == 1)
        return jnp.where(wait, jnp.array([0.0, 1.0, 0.0]), jnp.array([0.0, 0.0, 1.0]))

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.where(state[1] == 1, 2.0, jnp.where(action == 0, 0.0, -1.0))


class EndlessReward(Probe):
    """Reward 1 for ever: only a time limit ends an episode, and it must not look like an end."""

    def transition(self, state, action, rng, params=None):
        return state

    def reward(self, state, action, next_state, rng, params=None):
        return 1.0

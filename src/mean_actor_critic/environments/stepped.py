"""What an engine needs of several environments that are stepped together: emulators now, others by the same calls."""

from typing import NamedTuple, Protocol

from mean_actor_critic.trees import Array


class Turn(NamedTuple):
    """What a step of every environment [environments] brought."""

    observation: Array  # after the step; of an episode that ended, its last
    next_observation: Array  # what the next step is decided on: another one only where an episode began with a new seed
    reward: Array  # float32, the environment's own
    terminated: Array  # the episode is over; of a game also where a lost life ends an episode
    truncated: Array  # the episode was cut off
    valid: Array  # the action was the agent's: false in a step that resets, or presses FIRE for a new life
    score: Array  # float32: the undiscounted return of an episode that ended with this step, else NaN


class Environments(Protocol):
    """Some environments of one trial. Call `begin` or `restore` first, then `send` and `receive` in turn."""

    @property
    def environments(self) -> int:
        """How many."""

    def begin(self) -> Array:
        """Begin an episode everywhere; returns the first observation [environments, …]."""

    def begin_anew(self) -> Array:
        """Begin another episode everywhere at once, without new seeds."""

    def send(self, action: Array) -> None:
        """Let every environment take its action [environments]; they step while the caller does something else."""

    def receive(self) -> Turn:
        """What came of the actions sent."""

    def record(self) -> dict[str, Array]:
        """The way to where the environments were when something was last received from them."""

    def restore(self, record: dict[str, Array], digest: Array) -> Array:
        """Go the way that `record` gave; returns the observation, whose `digest` must be this."""

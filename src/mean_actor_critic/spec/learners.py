"""Which learners there are, and the settings of each: `…Setup` shapes compiled programs, `…Hyper` flows through them.

The fields below are the only place where a setting's default, meaning and limits are written. A learner is a module in
`learning` that holds a `Learner`, named by its setup, and an entry in `LEARNERS`.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from mean_actor_critic.spec.algorithms import BASELINE, CRITIC, POLICY, STATE_VALUES, algorithm_of
from mean_actor_critic.spec.given import GivenNetwork
from mean_actor_critic.spec.settings import Limits, choice, is_whole, number, setting, switch, whole

ACTIVATIONS = ("relu", "leaky_relu", "tanh")
OPTIMIZERS = ("adam", "rmsprop", "sgd", "adadelta")
ANY = "any"  # an activation or optimiser that is not fixed when a program is compiled, but told when it runs
EPISODES, STEPS = "episodes", "steps"  # what a clock counts, and a budget
ENGINES = ("compiled", "hosted", "atari")


def _parse_widths(text: str) -> tuple[int, ...]:
    return () if text in ("", "none") else tuple(int(part) for part in text.split(","))


_WIDTHS = Limits(
    _parse_widths,
    lambda value: isinstance(value, tuple) and len(value) <= 3 and all(is_whole(v, 1, 65536) for v in value),
    "up to three widths separated by commas, such as 100,100; none for a linear network",
    "units of each hidden layer, the same for policy and critic",
    "any",
)


# --- episodic: the paper's classic-control learner -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EpisodicSetup:
    """Everything that shapes the compiled program. Equal setups share one compilation."""

    learner: ClassVar[str] = "episodic"
    module: ClassVar[str] = "mean_actor_critic.learning.episodic"

    algorithm: str = "mac"
    estimator: Callable[..., Any] | None = None  # a function that was given in the place of a known algorithm's
    masked: bool = False  # only legal actions are taken: the environment tells which
    hidden: tuple[int, ...] = setting((64,), _WIDTHS)
    activation: str = choice("relu", ACTIVATIONS, "of the hidden layers; the leak is 0.3")
    optimizer: str = choice("adam", OPTIMIZERS, "of both networks")
    normalize_observations: bool = switch(False, "scale observations by their running mean and deviation")
    critic_target: str = choice(
        "expected_sarsa", ("expected_sarsa", "monte_carlo"), "what the critic learns towards", CRITIC
    )
    time_limit: str = choice(
        "bootstrap", ("bootstrap", "terminal"), "what a cut-off means: an unfinished episode, or an end", CRITIC
    )
    replay_capacity: int = whole(2000, "transitions that the critic's replay holds", CRITIC)
    minibatches: int = whole(10, "critic steps after each episode", CRITIC)
    batch_size: int = whole(32, "transitions in each critic step", CRITIC)

    @property
    def has_critic(self) -> bool:
        """Whether the algorithm learns action values."""
        return CRITIC in algorithm_of(self.algorithm).parts

    def generalised(self) -> "EpisodicSetup":
        """The same with ANY activation and optimiser: what settings have in common that can share one program."""
        return dataclasses.replace(self, activation=ANY, optimizer=ANY)


@dataclasses.dataclass(frozen=True)
class EpisodicHyper:
    """Numbers that flow through the compiled program: changing them never recompiles. Each may differ by trial."""

    actor_lr: Any = number(0.005, 0.0, 1e9, "learning rate of the policy")
    critic_lr: Any = number(0.01, 0.0, 1e9, "learning rate of the critic", CRITIC)
    discount: Any = number(0.9999, 0.0, 1.0, "discount factor per step")
    baseline_decay: Any = number(0.9, 0.0, 0.999999, "weight of the past in the running-average return", BASELINE)


# --- what learners for any environment know of observations -----------------------------------------------------------

# Kinds of the parts of an observation: numbers; one 1 among 0s; any 0s and 1s; pixels.
VECTOR, CHOICE, BINARY, IMAGE = "vector", "choice", "binary", "image"


class Part(NamedTuple):
    """A part of a flattened observation."""

    kind: str  # VECTOR, CHOICE, BINARY or IMAGE
    shape: tuple[int, ...]
    in_bytes: bool = False  # whether its numbers are whole, from 0 to 255

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


def all_in_bytes(parts: Sequence[Part]) -> bool:
    """Whether all numbers of an observation are whole, from 0 to 255."""
    return bool(parts) and all(part.in_bytes for part in parts)


# --- rollout: the paper's Atari learner, on games and everywhere else ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RolloutSetup:
    """What shapes the compiled programs on every engine. The defaults are the paper's, for games."""

    learner: ClassVar[str] = "rollout"

    algorithm: str = "mac"
    estimator: Callable[..., Any] | None = None  # a function that was given in the place of a known algorithm's
    masked: bool = False  # only legal actions are taken: the environment tells which
    rollout_steps: int = whole(1, "steps of each environment between updates: the n of n-step returns", high=1000)
    clip_rewards: bool = switch(True, "learn from the signs of rewards; scores are never clipped")
    time_limit: str = choice(
        "terminal", ("bootstrap", "terminal"), "what a cut-off means: an unfinished episode, or an end"
    )
    schedule: str = choice("constant", ("constant", "linear"), "of the learning rate; linear falls to 0 at the end")

    @property
    def has_state_values(self) -> bool:
        """Whether the critic values states, not actions."""
        return STATE_VALUES in algorithm_of(self.algorithm).parts


@dataclasses.dataclass(frozen=True)
class GameRolloutSetup(RolloutSetup):
    """Everything that shapes the compiled programs on Atari games, which have the paper's network."""

    module: ClassVar[str] = "mean_actor_critic.learning.rollout"

    pipelined: bool = switch(
        False, "emulators play while the learner learns: faster, and actions come from weights one update old"
    )


@dataclasses.dataclass(frozen=True)
class GeneralRolloutSetup(RolloutSetup):
    """Everything that shapes the compiled program on other environments, whose networks follow what they show."""

    module: ClassVar[str] = "mean_actor_critic.learning.rollout_general"
    critics: ClassVar[int] = 0  # networks beside the policy's own, which has a head for values

    parts: tuple[Part, ...] = ()  # of observations, in their order when flattened
    network: GivenNetwork | None = None  # a user's own, which sees observations as they are
    environments: int = whole(8, "environments of a trial, stepped together", high=1024)
    hidden: tuple[int, ...] = setting((64, 64), _WIDTHS)
    layer_norm: bool = switch(False, "normalise what each layer computes over its units")
    normalize_observations: bool = switch(
        True, "scale observations by what was seen of them; where there are images, they always are"
    )
    scale_rewards: bool = switch(True, "divide rewards by the size of returns")

    @property
    def layers(self) -> tuple[int, ...]:
        """Units of the hidden layers."""
        return self.hidden

    @property
    def scales_observations(self) -> bool:
        """Whether observations are scaled by what was seen of them."""
        images = any(part.kind == IMAGE for part in self.parts)
        return self.network is None and (self.normalize_observations or images)

    def outputs_for(self, actions: int) -> int:
        """Outputs of the network: a logit for each action, then the critic's values."""
        return actions + (1 if self.has_state_values else actions)

    def actions_among(self, outputs: int) -> int:
        """How many of so many outputs are logits: the inverse."""
        return outputs - 1 if self.has_state_values else outputs // 2


@dataclasses.dataclass(frozen=True)
class RolloutHyper:
    """Numbers that flow through the compiled program: changing them never recompiles. Each may differ by trial."""

    learning_rate: Any = number(1.5e-3, 0.0, 1e9, "of RMSProp, for the whole network")
    discount: Any = number(0.99, 0.0, 1.0, "discount factor per step")
    policy_weight: Any = number(0.1, 0.0, 1e9, "of the policy's loss in the sum")
    entropy_weight: Any = number(0.001, 0.0, 1e9, "of the policy's entropy, which is to stay high")
    value_weight: Any = number(0.5, 0.0, 1e9, "of the critic's loss, half a squared error")
    gradient_norm: Any = number(0.5, 1e-9, 1e9, "a longer gradient is shortened to this")
    rms_decay: Any = number(0.99, 0.0, 1.0, "weight of the past in the mean of squared gradients")
    rms_epsilon: Any = number(1e-5, 1e-30, 1e9, "added to that mean before the root is taken")


# --- replayed: one setting for every environment ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ReplayedSetup:
    """Everything that shapes the compiled program."""

    learner: ClassVar[str] = "replayed"
    module: ClassVar[str] = "mean_actor_critic.learning.replayed"
    rollout_steps: ClassVar[int] = 1  # of each environment between two calls of `learn`

    algorithm: str = "mac"
    estimator: Callable[..., Any] | None = None  # no function can be given in the place of a known algorithm's
    parts: tuple[Part, ...] = ()  # of observations, in their order when flattened
    masked: bool = False  # only legal actions are taken: the environment tells which
    network: GivenNetwork | None = None  # a user's own, which sees observations as they are
    environments: int = whole(4, "environments of a trial, stepped together", high=1024)
    hidden: tuple[int, ...] = setting((64, 64), _WIDTHS)
    table: bool = switch(True, "where an observation is a single choice, values by a table instead of hidden layers")
    layer_norm: bool = switch(True, "normalise what each layer computes over its units")
    critics: int = whole(2, "critics, of which targets take the lowest value and the policy the mean", high=8)
    critic_target: str = choice(
        "retrace", ("retrace", "tree_backup", "n_step", "one_step"), "what the critics learn towards"
    )
    policy_step: str = choice(
        "mirror_descent", ("mirror_descent", "gradient"), "how the policy follows the critics", POLICY
    )
    normalize_observations: bool = switch(True, "scale observations by what was seen of them")
    scale_rewards: bool = switch(True, "divide rewards by the size of returns")
    novelty: bool = switch(True, "reward states that are unlike those seen before; it fades by itself")
    replay_capacity: int = whole(100_000, "steps that the replay holds", high=100_000_000)
    sequences: int = whole(16, "runs of steps in each update")
    sequence_length: int = whole(8, "steps of each run", high=1000)
    updates_per_step: int = whole(8, "updates after each step of all environments")
    warm_up: int = whole(500, "agent steps with uniform actions before learning begins", low=0)

    @property
    def scales_observations(self) -> bool:
        """Whether networks see observations by a scale, if by one that leaves them as they are."""
        return self.network is None

    @property
    def layers(self) -> tuple[int, ...]:
        """Units of each hidden layer, of which a table has none."""
        return () if self.table and [part.kind for part in self.parts] == [CHOICE] else self.hidden

    @property
    def observation_dtype(self) -> str:
        """How the replay keeps observations."""
        return "uint8" if all_in_bytes(self.parts) else "float32"


@dataclasses.dataclass(frozen=True)
class ReplayedHyper:
    """Numbers that flow through the compiled program: changing them never recompiles. Each may differ by trial."""

    learning_rate: Any = number(1e-3, 0.0, 1e9, "of Adam, for all networks, at first")
    settling_steps: Any = number(20_000, 1.0, 1e12, "agent steps after which the learning rate has lost 3 tenths")
    release_steps: Any = number(
        50_000, 1.0, 1e12, "agent steps after which the pull to uniform has halved; it falls with their square", POLICY
    )
    discount: Any = number(0.99, 0.0, 1.0, "discount factor per step")
    trace_decay: Any = number(0.9, 0.0, 1.0, "the lambda of traces: 0 looks one step ahead")
    target_rate: Any = number(0.015, 0.0, 1.0, "how far target networks follow in each update; 1: none lag behind")
    temperature: Any = number(1.0, 1e-6, 1e9, "of a mirror-descent step: higher is smaller", POLICY)
    uniform_pull: Any = number(
        0.1, 0.0, 1.0, "towards the uniform policy in each mirror-descent step, at first", POLICY
    )
    advantage_clip: Any = number(1.0, 0.0, 1e9, "standard deviations beyond which an advantage counts no more", POLICY)
    entropy_weight: Any = number(0.05, 0.0, 1e9, "of the policy's entropy, in gradient steps", POLICY)
    novelty_weight: Any = number(1.0, 0.0, 1e9, "of the bonus for new states, against rewards of the usual size")
    exploration: Any = number(0.0, 0.0, 1.0, "share of uniform actions among those taken")


# --- all of them -----------------------------------------------------------------------------------------------------

Setup = EpisodicSetup | GameRolloutSetup | GeneralRolloutSetup | ReplayedSetup
Hyper = EpisodicHyper | RolloutHyper | ReplayedHyper


class Shapes(NamedTuple):
    """What an agent sees and can do."""

    observation: tuple[int, ...]
    actions: int


class LearnerSpec(NamedTuple):
    """What the world outside `learning` needs to know of a learner."""

    help: str
    setups: dict[str, type[Any]]  # by the engines that can call it, of ENGINES: the dataclass of its settings there
    hyper: type[Any]  # that of its numbers
    unit: str  # what its clock counts between two calls of `learn`: EPISODES or STEPS


LEARNERS: dict[str, LearnerSpec] = {
    "episodic": LearnerSpec(
        "after each episode, critic steps on replayed data and one policy step (the paper's, for classic control)",
        {"compiled": EpisodicSetup, "hosted": EpisodicSetup},
        EpisodicHyper,
        EPISODES,
    ),
    "rollout": LearnerSpec(
        "after each short rollout of several environments, one step of one network (A2C's way; the paper's on games)",
        {"compiled": GeneralRolloutSetup, "hosted": GeneralRolloutSetup, "atari": GameRolloutSetup},
        RolloutHyper,
        STEPS,
    ),
    "replayed": LearnerSpec(
        "after each step of several environments, updates on replayed runs of steps (for any environment)",
        {"compiled": ReplayedSetup, "hosted": ReplayedSetup},
        ReplayedHyper,
        STEPS,
    ),
}


GENERAL = "replayed"  # the learner for environments that nothing was tuned for, with one setting for all


def learners_on(engine: str) -> list[str]:
    """The learners that an engine can call, the usual one first."""
    return [name for name, spec in LEARNERS.items() if engine in spec.setups]

"""How environments are played: where episodes end, what an agent sees of a game, and when it is evaluated."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.checks import plain, unknown_name
from mean_actor_critic.spec.settings import number, settings_of, switch, whole

GAME = "ALE/"  # what the ids of Atari games begin with
MAX_EPISODE_STEPS = (1, 1_000_000)


@dataclasses.dataclass(frozen=True)
class EpisodeRules:
    """How environments of the compiled and the hosted engine are played."""

    max_episode_steps: int = whole(
        200, "agent steps after which an episode is cut off", "environment", high=MAX_EPISODE_STEPS[1]
    )
    action_masks: bool = switch(True, "take legal actions only, where the environment tells which", "environment")


@dataclasses.dataclass(frozen=True)
class GameRules:
    """How Atari games are played and shown, with the paper's values as defaults.

    *Steps* are agent decisions; *frames* are the emulator's, `frame_skip` to a step. Nothing here is a bare count.
    """

    environments: int = whole(16, "emulators of a trial, stepped together", "game", high=1024)
    frame_skip: int = whole(4, "frames of a step: each action is held for so many", "game", high=60)
    max_pool: bool = switch(True, "show the pixelwise maximum of a step's last two frames", "game")
    sticky_actions: float = number(
        0.0, 0.0, 1.0, "probability that a frame repeats the action of the frame before", "game", by_trial=False
    )
    noop_max: int = whole(30, "a game begins with fewer than so many idle frames, at random", "game", low=0, high=1000)
    fire_reset: bool = switch(
        True, "press FIRE, where there is one, when a game or, in training, a life begins", "game"
    )
    episodic_life: bool = switch(True, "in training, a lost life ends the episode, though not the game", "game")
    screen_size: int = whole(84, "height and width in pixels that the screen is shrunk to", "game", low=36, high=210)
    grey: bool = switch(True, "screens in shades of grey, not in colour", "game")
    stack: int = whole(4, "screens of an observation, the last so many steps", "game", high=16)
    all_actions: bool = switch(False, "all 18 actions instead of those that the game uses", "game")
    max_episode_frames: int = whole(108_000, "frames after which a game is cut off", "game", high=10**9)
    evaluation_fire: bool = switch(
        False,
        "press FIRE when a life begins in evaluations too; else an agent that never had to may wait for ever",
        "evaluation",
    )
    evaluation_steps: int = whole(
        4500, "steps of each environment: of a batch, and until none is begun", "evaluation", high=10**7
    )
    evaluation_environments: int = whole(16, "games of a batch, played at once", "evaluation", high=1024)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of one environment, uint8: [stack, height, width], in colour with three values for each pixel."""
        shape = (self.stack, self.screen_size, self.screen_size)
        return shape if self.grey else (*shape, 3)

    @property
    def max_episode_steps(self) -> int:
        """Agent steps after which a game has been cut off."""
        return self.max_episode_frames // self.frame_skip + 1


@dataclasses.dataclass(frozen=True)
class EvaluationRules:
    """When a trial is evaluated while it trains, by episodes of their own seeds; the same for every engine."""

    evaluation_interval: int = whole(
        0, "steps (episodes, where the budget is in episodes) between evaluations; 0: none", "evaluation", 0, 10**9
    )
    evaluation_episodes: int = whole(
        20, "episodes of an evaluation (games: batches are begun until there are so many)", "evaluation", high=10_000
    )


@dataclasses.dataclass(frozen=True)
class EpisodeEvaluationRules(EvaluationRules):
    """The same where single episodes are played, not batches of games."""

    evaluation_greedy: bool = switch(
        False,
        "play the episodes of an evaluation a second time with the most probable actions, which then decide which "
        "agent is the best",
        "evaluation",
    )


Rules = EpisodeRules | GameRules
RULES: dict[str, type[Rules]] = {"compiled": EpisodeRules, "hosted": EpisodeRules, "atari": GameRules}  # by engine
EVALUATIONS: dict[str, type[EvaluationRules]] = {
    "compiled": EpisodeEvaluationRules, "hosted": EpisodeEvaluationRules, "atari": EvaluationRules,
}  # fmt: skip

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {},  # the defaults
    # Machado et al. (2018): randomness from sticky actions alone, and the agent plays whole games by itself
    "machado": {
        "sticky_actions": 0.25,
        "noop_max": 0,
        "fire_reset": False,
        "episodic_life": False,
        "time_limit": "bootstrap",
    },
}

# How games are played, whoever plays: what an agent sees and can do stays the same with any of these.
CHANGEABLE = (
    "frame_skip", "max_pool", "sticky_actions", "noop_max", "fire_reset", "max_episode_frames", "evaluation_fire",
)  # fmt: skip


def with_other_rules(rules: Rules, settings: Mapping[str, Any]) -> Rules:
    """The same rules with others in the place of some, by the names in `CHANGEABLE`.

    Raises:
        InputError: a setting is not one of these, or its value is not allowed.
    """
    known = settings_of(type(rules))
    changed = {}
    for name, given in settings.items():
        if name not in CHANGEABLE:
            raise unknown_name("setting", name, CHANGEABLE)
        if name not in known:
            raise InputError("settings", ", ".join(settings), "players of Atari games")
        changed[name] = plain(given)
        if not known[name].limits.valid(changed[name]):
            raise InputError(name, given, known[name].limits.allowed)
    return dataclasses.replace(rules, **changed)

"""Atari games through ALE's own vector environment: many emulators stepped together by threads of its own.

ALE cannot hand out the state of these emulators, so a checkpoint holds the way to it: the seed that an emulator was
last reset with, and every action since. Emulators are deterministic, and replaying is faster than training.

Two things are done here because ALE's options do something else than the paper did. Its `episodic_life` starts a new
game whenever a life is lost, so that no second life is ever played; here a lost life only ends the episode for the
learner. And rewards are taken raw: ALE would clip them before anybody could add up a score.
"""

import difflib
import functools
import hashlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.environments.stepped import Turn
from mean_actor_critic.errors import DamagedFileError, InputError, MacError
from mean_actor_critic.spec.rules import GAME, GameRules

LONGEST_JOURNAL = 5000  # steps of an environment after which its next game begins with a seed of its own
FRAMES_PER_SECOND = 60

Array = np.ndarray[Any, Any]
SeedOf = Callable[[int, int], int]  # (environment, how often it was seeded before) -> seed


class Game(NamedTuple):
    """A game before it is built."""

    name: str  # as Gymnasium calls it: ALE/SpaceInvaders-v5
    rom: str  # as ALE calls it: space_invaders
    spaces: Spaces  # observation: uint8 [stack, height, width], oldest screen first


def is_installed() -> bool:
    """Whether games can be played."""
    return importlib.util.find_spec("ale_py") is not None


def require_ale() -> None:
    """Raise a MacError that names the extra, unless games can be played."""
    if not is_installed():
        raise MacError("Atari games need ale-py: pip install 'mean-actor-critic[atari]'")


@functools.cache
def games() -> dict[str, str]:
    """The games that ALE plays, by the names that Gymnasium gives them: `ALE/SpaceInvaders-v5` to `space_invaders`."""
    require_ale()
    import ale_py

    gymnasium.register_envs(ale_py)  # ALE has ROMs besides that it cannot play
    return {name: spec.kwargs["game"] for name, spec in gymnasium.registry.items() if name.startswith(GAME)}


def find_game(name: str, rules: GameRules, said: Any = None) -> Game:
    """The game of that name, as rules show it.

    Args:
        name: such as "ALE/Pong-v5".
        rules: how it is played and shown.
        said: the environment that the user says it is, if any.

    Raises:
        InputError: there is no such game, or it is not the one that the user says.
        MacError: ALE is not installed.
    """
    if said is not None and said != name:
        raise InputError("environment", said, f"{name}, which this was trained on")
    known = games()
    if name not in known:
        names = {_stem(one): one for one in known}
        close = difflib.get_close_matches(_stem(name), list(names), n=1)
        guess = f" (did you mean {names[close[0]]}?)" if close else ""
        raise InputError("environment", name, f"one of ALE's {len(known)} games, {GAME}…-v5{guess}")
    rom = known[name]
    emulator = _vector(rules, rom, environments=1, threads=1)
    return Game(name, rom, Spaces(emulator.single_observation_space, emulator.single_action_space))


def _stem(name: str) -> str:
    """Of `ALE/SpaceInvaders-v5`, `spaceinvaders`."""
    return name.removeprefix(GAME).partition("-")[0].lower()


def _vector(rules: GameRules, rom: str, environments: int, threads: int, **screen: Any) -> Any:
    from ale_py.vector_env import AtariVectorEnv

    stack, height, width = rules.observation_shape[:3]
    usual = {"img_height": height, "img_width": width, "stack_num": stack, "grayscale": rules.grey}
    return AtariVectorEnv(
        rom,
        environments,
        num_threads=threads,
        max_num_frames_per_episode=rules.max_episode_frames,
        repeat_action_probability=rules.sticky_actions,
        full_action_space=rules.all_actions,
        frameskip=rules.frame_skip,
        maxpool=rules.max_pool,
        noop_max=rules.noop_max,
        use_fire_reset=rules.fire_reset,
        reward_clipping=False,
        episodic_life=False,
        **(usual | screen),
    )


class Emulators:
    """Some environments of one game, stepped together. Call `begin` or `restore` first, then `send` and `receive`.

    After the end of a game, the next step resets it, whatever the action; but if the journal of an environment has
    grown long, its game begins at once, with a seed of its own, and the journal anew.
    """

    def __init__(
        self, rules: GameRules, rom: str, environments: int, seed_of: SeedOf, training: bool, threads: int = 0
    ) -> None:
        """Make the emulators.

        Args:
            rules: how they are to be shown.
            rom: the game, as ALE calls it.
            environments: how many.
            seed_of: the seeds of each environment.
            training: whether a lost life ends an episode, if the rules say so.
            threads: that step them; 0 for one a core. Their number changes nothing.
        """
        self._vector = _vector(rules, rom, environments, threads)
        self._seed_of = seed_of
        self._episodic_life = training and rules.episodic_life
        names = [action.name for action in self._vector.ale.get_action_set()]
        fires = rules.fire_reset and (self._episodic_life if training else rules.evaluation_fire)
        self._fire = names.index("FIRE") if fires and "FIRE" in names else None  # for a new life
        self._seeded = np.zeros(environments, np.int32)  # how often
        self._journal = np.zeros((environments, LONGEST_JOURNAL), np.uint8)  # actions since the last seed
        self._length = np.zeros(environments, np.int32)  # of each journal
        self._under_way = 0  # actions sent that nothing was received for

    @property
    def environments(self) -> int:
        """How many."""
        return len(self._seeded)

    def begin(self) -> Array:
        """Begin a game everywhere; returns the first observation [environments, stack, height, width]."""
        everywhere = np.ones(self.environments, bool)
        self._forget()
        self._seeded[:] = 0
        return self._reset(everywhere)

    def begin_anew(self) -> Array:
        """Begin another game everywhere at once, without new seeds, which would take far longer."""
        observation, info = self._vector.reset()
        self._forget()
        self._lives = info["lives"].copy()
        self._length[:] = 0  # the way here is not one that actions alone describe
        return observation

    def _forget(self) -> None:
        self._lives = np.zeros(self.environments, np.int32)
        self._score = np.zeros(self.environments, np.float32)
        self._resetting = np.zeros(self.environments, bool)  # the next step resets the game
        self._firing = np.zeros(self.environments, bool)  # the next step presses FIRE

    def _reset(self, where: Array) -> Array:
        """Begin games with the next seeds of some environments; returns the observation of all."""
        places = np.flatnonzero(where)
        seeds = np.array([self._seed_of(int(i), int(self._seeded[i])) for i in places])
        partly = {} if where.all() else {"options": {"reset_mask": where}}
        observation, info = self._vector.reset(seed=seeds, **partly)
        self._seeded[places] += 1
        self._length[places] = 0
        self._lives[places] = info["lives"][places]
        self._score[places] = 0
        self._resetting[places] = self._firing[places] = False
        return observation

    def send(self, action: Array) -> None:
        """Let every environment take its action [environments]; they step while the caller does something else."""
        sent = np.asarray(action, np.int32)
        if self._fire is not None:
            sent = np.where(self._firing, np.int32(self._fire), sent)
        if self._length.max() == self._journal.shape[1]:  # a long game: room for another as long
            self._journal = np.concatenate([self._journal, np.zeros_like(self._journal)], axis=1)
        self._journal[np.arange(self.environments), self._length] = sent
        self._length += 1
        self._under_way = 1
        self._vector.send(sent)

    def receive(self) -> Turn:
        """What came of the actions sent."""
        observation, reward, over, truncated, info = self._vector.recv()
        self._under_way = 0
        lives, began = info["lives"], self._resetting
        valid = ~(self._resetting | self._firing)
        ended = over | truncated
        lost = (lives < self._lives) & (lives > 0) & ~ended & ~began
        self._score = np.where(began, 0, self._score) + reward
        score = np.where(ended, self._score, np.nan).astype(np.float32)
        self._lives, self._resetting = lives.copy(), ended
        self._firing = lost if self._fire is not None else np.zeros_like(lost)
        afresh = ended & (self._length >= LONGEST_JOURNAL)
        following = self._reset(afresh) if afresh.any() else observation
        return Turn(
            observation,
            following,
            reward.astype(np.float32),
            over | (lost & self._episodic_life),
            truncated,
            valid,
            score,
        )

    def record(self) -> dict[str, Array]:
        """The way to where the emulators were when something was last received from them."""
        length = self._length - self._under_way
        journals = [journal[:end] for journal, end in zip(self._journal, length, strict=True)]
        return {"seeded": self._seeded.copy(), "length": length, "actions": np.concatenate(journals)}

    def restore(self, record: dict[str, Array], digest: Array) -> Array:
        """Go the way that `record` gave; returns the observation, whose `digest` must be this.

        Raises:
            DamagedFileError: the way leads elsewhere, because it was altered or the emulator is another.
        """
        seeded, length, actions = record["seeded"], record["length"], record["actions"]
        largest = self._vector.single_action_space.n - 1
        if seeded.min() < 1 or length.min() < 0 or length.sum() != len(actions) or np.any(actions > largest):
            raise DamagedFileError("checkpoint: its journals of actions do not fit each other")
        journals = np.split(actions, np.cumsum(length)[:-1])
        longest = int(length.max())
        self._forget()
        self._seeded[:] = seeded - 1
        observation = self._reset(np.ones(self.environments, bool))
        # all arrive together: those with a shorter way idle in some game, and begin theirs when it is time
        for step in range(longest):
            beginning = (longest - length == step) & (step > 0)
            if beginning.any():
                self._seeded[beginning] -= 1
                self._reset(beginning)
            sent = np.array([
                journal[step - longest + len(journal)] if step >= longest - len(journal) else 0 for journal in journals
            ], np.int32)  # fmt: skip
            self._length = np.zeros_like(length)  # nothing is written down or begun afresh on the way
            self.send(sent)
            observation = self.receive().next_observation
        at_the_end = (length == 0) & (longest > 0)
        if at_the_end.any():
            self._seeded[at_the_end] -= 1
            observation = self._reset(at_the_end)
        if not np.array_equal(digest, digest_of(observation)):
            raise DamagedFileError("checkpoint: its actions lead to another screen: another emulator, or altered")
        self._journal = np.zeros((self.environments, max(LONGEST_JOURNAL, longest)), np.uint8)
        for place, journal in enumerate(journals):
            self._journal[place, : len(journal)] = journal
        self._length = length.astype(np.int32)
        return observation


def digest_of(observation: Array) -> Array:
    """SHA-256 of an observation, uint8 [32]."""
    return np.frombuffer(hashlib.sha256(np.ascontiguousarray(observation).data).digest(), np.uint8)


def make_game(rules: GameRules, rom: str, render_mode: str = "rgb_array") -> "gymnasium.Env[Any, Any]":
    """One environment of a game as evaluations play it, whole games and raw scores, which can be watched."""
    return _Game(rules, rom, render_mode)


class _Game(gymnasium.Env[Any, Any]):
    """A game, and beside it the same game in colour: with the same seed and actions, emulators show the same."""

    def __init__(self, rules: GameRules, rom: str, render_mode: str) -> None:
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND / rules.frame_skip}
        self._played = _vector(rules, rom, environments=1, threads=1)
        self._seen = _vector(
            rules, rom, environments=1, threads=1, img_height=210, img_width=160, stack_num=1, grayscale=False
        )
        self.observation_space = self._played.single_observation_space
        self.action_space = self._played.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        del options
        observation, _ = self._played.reset(seed=seed)
        self._picture = self._seen.reset(seed=seed)[0][0, 0]
        return observation[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        actions = np.array([action], np.int32)
        observation, reward, terminated, truncated, _ = self._played.step(actions)
        self._picture = self._seen.step(actions)[0][0, 0]
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        """The screen in colour, uint8 [210, 160, 3]."""
        return self._picture

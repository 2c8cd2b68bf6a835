"""The hosted engine: environments in worker processes, policies and learners here.

A lane is a trial's place: its environment in a worker, its episode on the shared board, its policy in the acting stack.
Lanes do not wait for each other. As soon as `width` of them have ended an episode, they learn together, in one call of
fixed shape, while the others play on; then they begin their next episode. Which lanes happen to learn together changes
nothing: a lane's bits depend on the width, not on its neighbours or its place among them.

Each worker takes turns of its own with its lanes: while the policies act for one worker's, the environments of others
step. Policies act in blocks of fixed width, so that neither the number of workers nor who ended when changes a bit.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.engines.updates import Carried, update_among
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted.fleet import Fleet, WorkerLimits
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import chosen_action, softmax
from mean_actor_critic.learning.randomness import EpisodeKeys, action_draws, training_keys
from mean_actor_critic.learning.types import Batch, Metrics
from mean_actor_critic.trees import Array as HostArray

WIDEST_LESSON = 8  # trials that learn in one call: more wait longer for each other and gain little
WIDEST_BLOCK = 32  # lanes that act in one call


def choose_width(trials: int) -> int:
    """Trials that learn together."""
    return min(WIDEST_LESSON, trials)


# --- programs --------------------------------------------------------------------------------------------------------


class Lesson(NamedTuple):
    """What a call of the learning program gives back: for all trials, and [width] for those that learned."""

    carried: Carried
    actor: Any
    draws: Float[Array, "width time"]  # for the next episode's actions
    metrics: Metrics
    newly_diverged: Bool[Array, " width"]  # with this episode


@functools.cache
def acting_program(setup: Any) -> Callable[..., Array]:
    """Compiled `(actor [lane], observation [lane, size], mask [lane, action] or (), draw [lane]) -> action [lane]`.

    The draws are those of `chosen_action`.
    """

    def act(actor: Any, observation: Array, mask: Any, draw: Array) -> Array:
        seen = observation.astype(jnp.float32)  # of bytes, where the board keeps these
        policy = softmax(jax.vmap(functools.partial(learner_of(setup).act, setup))(actor, seen, mask).logits)
        return chosen_action(policy, draw, setup.masked).astype(jnp.int32)

    return jax.jit(act)


@functools.cache
def learning_program(setup: Any, limit: int) -> Callable[..., Lesson]:
    """Compiled `(seed [], trial [trials], hyper [trials], carried [trials], which [width], batch [width])`.

    The trials at the places `which` learn; a place beyond the last is padding. What is given as carried is consumed.
    `limit` is that of an episode, in agent steps.
    """

    def learn(
        seed: Int[Array, ""],
        trial: Int[Array, " trials"],
        hyper: Any,
        carried: Carried,
        which: Int[Array, " width"],
        batch: Batch,
    ) -> Lesson:
        keys_of = jax.vmap(functools.partial(training_keys, seed))
        keys = keys_of(trial[which], carried.learner.episode[which])
        carried, learned, metrics = update_among(setup, hyper, carried, which, batch, keys.minibatches)
        next_keys = keys_of(trial[which], learned.episode)
        return Lesson(
            carried=carried,
            actor=learner_of(setup).actor(setup, learned),
            draws=jax.vmap(lambda keys: action_draws(keys, limit))(next_keys),
            metrics=metrics,
            newly_diverged=learned.diverged_at == learned.episode,
        )

    return jax.jit(learn, donate_argnums=3)


@functools.cache
def drawing_program(steps: int, keys_of: Callable[..., EpisodeKeys] = training_keys) -> Callable[..., Array]:
    """Compiled `(seed [], trial [lane], episode [lane]) -> draws [lane, steps]`; `keys_of` tells training from play."""

    def draw(seed: Array, trial: Array, episode: Array) -> Array:
        keys = jax.vmap(functools.partial(keys_of, seed))(trial, episode)
        return jax.vmap(lambda keys: action_draws(keys, steps))(keys)

    return jax.jit(draw)


@jax.jit
def _replaced(stack: Any, which: Array, rows: Any) -> Any:
    """A stack of actors with some replaced; places beyond the last are left out."""
    return jax.tree.map(lambda all_, some: all_.at[which].set(some, mode="drop"), stack, rows)


# --- lanes at play ---------------------------------------------------------------------------------------------------


class _ActingBlock:
    """Lanes whose policies act in one call of fixed width; padded by repeating the last."""

    def __init__(self, actors: Any, lanes: HostArray, width: int) -> None:
        self.lanes = len(lanes)
        self.place = {int(lane): i for i, lane in enumerate(lanes)}
        self.padded = np.append(lanes, np.repeat(lanes[-1:], width - len(lanes)))
        self.actors = jax.device_put(jax.tree.map(lambda x: x[self.padded], actors), jax.devices()[0])


class Players:
    """Actors on lanes, each playing episodes in its own environment."""

    def __init__(
        self,
        setup: Any,
        limit: int,
        environment: EnvironmentSpec,
        actors: Any,
        lanes: int,
        limits: WorkerLimits,
        whole: bool = True,
    ) -> None:
        """Lanes for stacked `actors` [lane]; nobody plays until `begin`.

        `limit` is that of an episode, in steps. Unless `whole` episodes are wanted, no observations of them are kept.
        """
        workers = limits.workers_for(lanes)
        self._lanes = [np.arange(lanes)[worker::workers] for worker in range(workers)]  # of each cohort
        self._width = min(WIDEST_BLOCK, -(-lanes // 4))  # depends on the number of lanes only
        self._blocks = [
            [_ActingBlock(actors, cohort[i : i + self._width], self._width) for i in range(0, len(cohort), self._width)]
            for cohort in self._lanes
        ]
        self._act, self._masked = acting_program(setup), setup.masked
        self._draws = np.zeros((lanes, limit), np.float32)
        self._to_begin: dict[int, tuple[int, int, int]] = {}  # lane: trial, episode, seed; when its cohort's turn comes
        self._whole = whole
        build, spaces = environment.build, environment.spaces
        self.fleet = Fleet(environment.name, build, spaces, limit, self._lanes, limits, whole)
        self.board = self.fleet.board

    def replace(self, which: HostArray, actors: Any) -> None:
        """Give the lanes `which` [n] other actors [n]; a lane beyond the last is left out."""
        for block in (block for blocks in self._blocks for block in blocks):
            place = np.array([block.place.get(int(lane), self._width) for lane in which])
            if np.any(place < self._width):
                block.actors = _replaced(block.actors, place, actors)

    def begin(self, lane: int, trial: int, episode: int, seed: int, draws: HostArray) -> None:
        """Begin an episode in a lane that is not playing. `draws` [time] choose its actions."""
        self._draws[lane] = draws
        self._to_begin[lane] = (trial, episode, seed)

    @property
    def at_play(self) -> bool:
        """Whether any lane has something to do."""
        return bool(self._to_begin) or self.fleet.in_flight or bool(np.any(self.board.status == boards.RUNNING))

    def steps_on_board(self, without: Iterable[int] = ()) -> int:
        """Agent steps of the episodes that the board shows, but for some lanes.

        These are the episodes at play, and those ended of lanes that have not begun anew.
        """
        shown = self.board.command != boards.RESET
        shown[[*self._to_begin, *without]] = False
        return int(self.board.time[shown].sum())

    def turn(self) -> HostArray:
        """Wait for a cohort's turn and send it on at once; returns the lanes [n] whose episodes have ended with it.

        Whatever the caller does about these, it does while the environments of all others step. Only while somebody is
        `at_play`.

        Raises:
            EnvironmentFault: an environment failed.
        """
        for cohort in range(len(self._lanes)):
            if not self.fleet.is_waiting(cohort):
                self._send(cohort)
        done = self.fleet.receive()
        ended = [self._ended(cohort) for cohort in done]
        for cohort in done:
            self._send(cohort)
        return np.concatenate(ended)

    def _send(self, cohort: int) -> None:
        board, lanes = self.board, self._lanes[cohort]
        running = board.status[lanes] == boards.RUNNING
        if running.any():
            now = board.time[lanes]
            action = np.concatenate([self._actions(block) for block in self._blocks[cohort]])
            playing = lanes[running]
            board.action[playing, now[running]] = action[running]
            board.command[playing] = boards.STEP
        beginners = [lane for lane in self._to_begin if lane % len(self._lanes) == cohort]
        for lane in beginners:
            self.fleet.begin(lane, *self._to_begin.pop(lane))
        if beginners or running.any():
            self.fleet.send(cohort)

    def _actions(self, block: _ActingBlock) -> HostArray:
        lanes = block.padded
        now = self.board.time[lanes]
        draw = self._draws[lanes, np.minimum(now, self._draws.shape[1] - 1)]  # at the end of time nobody acts
        mask = self.board.legal(lanes, now) if self._masked else ()
        return np.asarray(self._act(block.actors, self.board.shown(lanes, now), mask, draw))[: block.lanes]

    def _ended(self, cohort: int) -> HostArray:
        """The lanes of a cohort whose turn is over that have ended with it; none has a command any more."""
        board, lanes = self.board, self._lanes[cohort]
        played = board.command[lanes] != boards.IDLE
        board.command[lanes] = boards.IDLE
        return lanes[played & (board.status[lanes] > boards.RUNNING)]

    def episodes(self, lanes: HostArray) -> Batch:
        """The ended episodes of lanes [n], as arrays of the host; without observations unless they are kept."""
        board: Any = self.board
        length = board.time[lanes][:, None]
        steps: Any = np.arange(board.reward.shape[1])
        terminated = board.status[lanes][:, None] == boards.TERMINATED
        return Batch(
            observation=board.observation[lanes] if self._whole else (),
            action=board.action[lanes],
            reward=board.reward[lanes],
            terminated=terminated & (steps == length - 1),
            valid=steps < length,
            mask=board.mask[lanes] if self._masked else (),
        )

    def close(self) -> None:
        """End the workers."""
        self.fleet.close()

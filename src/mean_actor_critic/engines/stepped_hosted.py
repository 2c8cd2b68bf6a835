"""Trials that are stepped together with environments in worker processes.

Trials are split into groups, one for each device. A group has its own workers and its own thread: it acts for all its
trials in one call, lets the environments step, and learns in another call while new episodes are begun. A trial's bits
depend on the width of its group, not on its neighbours or on the number of workers.

A checkpoint holds the seeds and actions of the episodes under way. To go on, they are played again; the observation
that this leads to must be the one that was left.
"""

import concurrent.futures
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from mean_actor_critic.engines import stepped
from mean_actor_critic.engines.curves import PLAYING
from mean_actor_critic.engines.memory import joined, on_host
from mean_actor_critic.engines.updates import Carried, update
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted.fleet import Fleet, WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.errors import DamagedFileError, EnvironmentFault
from mean_actor_critic.learning.randomness import stepping_keys
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array as HostArray
from mean_actor_critic.trees import Arrays


@functools.cache
def acting_program(setup: Any) -> Callable[..., tuple[Array, Array]]:
    """Compiled `(seed, step, trial [lane], hyper [lane], state [lane], observation [lane, environment, …], mask)`.

    Gives the actions [lane, environment] and the probabilities that they had.
    """

    def act(
        seed: Array, step: Array, trial: Array, hyper: Any, state: Any, observation: Array, mask: Any
    ) -> tuple[Array, Array]:
        def one(trial: Array, hyper: Any, state: Any, observation: Array, mask: Any) -> tuple[Array, Array]:
            key = stepping_keys(seed, trial, step).actions
            seen = observation.astype(np.float32)
            return stepped.choose(setup, stepped.context_at(step), hyper, state, seen, mask, key)

        return jax.vmap(one)(trial, hyper, state, observation, mask)

    return jax.jit(act)


@functools.cache
def learning_program(setup: Any) -> Callable[..., Carried]:
    """Compiled `(seed, step, trial [lane], hyper [lane], carried [lane], batch [lane], active [lane])`.

    A lane that is not active stays as it is. What is given as carried is consumed.
    """

    def learn(
        seed: Array, step: Array, trial: Array, hyper: Any, carried: Carried, batch: Batch, active: Array
    ) -> Carried:
        def one(trial: Array, hyper: Any, carried: Carried, batch: Batch, active: Array) -> Carried:
            key = stepping_keys(seed, trial, step).minibatches
            batch = batch._replace(observation=batch.observation.astype(np.float32))  # of bytes, where it is these
            new, _ = update(setup, stepped.context_at(step), hyper, carried, batch, key)
            keep = functools.partial(jax.numpy.where, active)
            return new._replace(learner=jax.tree.map(keep, new.learner, carried.learner))

        return jax.vmap(one)(trial, hyper, carried, batch, active)

    return jax.jit(learn, donate_argnums=4)


def whole(carried: Carried) -> Carried:
    """All that trials carry."""
    return carried


class _Way(NamedTuple):
    """The way to where environments are [environment …] since their episodes began."""

    episode: HostArray  # int32: how many were begun before
    actions: list[list[int]]


class _Group:
    """Some trials, and their environments: lane i × environments + k is environment k of the i-th."""

    def __init__(
        self,
        experiment: Experiment,
        environment: EnvironmentSpec,
        place: HostArray,
        real: int,
        carried: Carried,
        device: Any,
        limits: WorkerLimits,
    ) -> None:
        """For the trials at the places [width], of which the first `real` are not padding."""
        self._experiment, self._place, self.real, self.first = experiment, place, real, int(place[0])
        self._environments = experiment.environments
        self._limit = experiment.rules.max_episode_steps
        own = (experiment.trial_numbers(), experiment.hyper_of_trials(), carried)
        put = functools.partial(jax.device_put, device=device)
        self._trial, self._hyper, self.carried = put(jax.tree.map(lambda x: x[place], own))
        self._act, self._learn = acting_program(experiment.setup), learning_program(experiment.setup)
        lanes = np.arange(real * self._environments)
        workers = limits.workers_for(len(lanes))
        self._cohorts = [lanes[worker::workers] for worker in range(workers)]
        build, spaces = environment.build, environment.spaces
        self.fleet = Fleet(environment.name, build, spaces, self._limit, self._cohorts, limits, whole=False)
        self.board = self.fleet.board
        # where each environment was after the last whole step, which is what a checkpoint is about
        self._episode = np.zeros(len(lanes), np.int32)
        self._length = np.zeros(len(lanes), np.int32)
        self._earned = np.zeros(len(lanes), np.float64)
        self._observation = np.zeros_like(self.board.observation[:, 0])
        self._masked = experiment.setup.masked

    def _trial_and_environment(self, lane: int) -> tuple[int, int]:
        place, environment = divmod(lane, self._environments)
        return int(self._experiment.trial_numbers()[self._place[place]]), environment

    def _reset(self, lanes: HostArray) -> None:
        """Ask for new episodes, of the numbers that are noted; `_wait` for them."""
        for lane in lanes.tolist():
            trial, environment = self._trial_and_environment(lane)
            number = int(self._episode[lane]) * self._environments + environment
            seed = reset_seed(self._experiment.seed, trial, number)
            self.fleet.begin(lane, trial, number, seed)
        self._send(lanes)

    def _send(self, lanes: HostArray) -> None:
        for cohort, own in enumerate(self._cohorts):
            if np.isin(own, lanes).any():
                self.fleet.send(cohort)

    def _wait(self) -> None:
        while self.fleet.in_flight:
            self.fleet.receive()
        self.board.command[:] = boards.IDLE

    def begin(self) -> None:
        """Begin the first episode everywhere."""
        lanes = np.arange(len(self._episode))
        self._reset(lanes)
        self._wait()
        self._observation[:] = self.board.observation[lanes, 0]

    def go_back(self, way: _Way, observation: HostArray) -> None:
        """Play episodes that were under way again.

        Raises:
            EnvironmentFault: they do not lead to the observation where they were left.
        """
        self._episode[:] = way.episode
        lanes = np.arange(len(self._episode))
        self._reset(lanes)
        self._wait()
        for time in range(max(map(len, way.actions), default=0)):
            going = np.array([lane for lane in lanes if time < len(way.actions[lane])])
            self.board.action[going, time] = [way.actions[lane][time] for lane in going]
            self.board.command[going] = boards.STEP
            self._send(going)
            self._wait()
            self._earned[going] += self.board.reward[going, time]
        self._length[:] = self.board.time[lanes]
        self._observation[:] = self.board.shown(lanes, self._length)
        for lane in lanes.tolist():
            over = self.board.status[lane] != boards.RUNNING
            begun = not way.actions[lane]  # and perhaps not seen yet
            if over or not (begun or np.array_equal(self._observation[lane], observation[lane])):
                trial, _ = self._trial_and_environment(lane)
                where = f"trial {trial}, episode {int(self._episode[lane]) + 1}: "
                words = "differs when the same seed and actions are played again: an exact resume needs it not to"
                raise EnvironmentFault(self.fleet.name, where, "observation", words)

    def way(self) -> tuple[_Way, HostArray]:
        """How to come back to where the environments are, and what they show there."""
        actions = [self.board.action[lane, :length].tolist() for lane, length in enumerate(self._length)]
        return _Way(self._episode.copy(), actions), self._observation.copy()

    def advance(self, first: int, steps: int, active: HostArray) -> stepped.Ended:
        """Take steps from number `first` on; returns the episodes that ended [steps, real trials, environments]."""
        shape = (steps, self.real, self._environments)
        ended = stepped.Ended(np.zeros(shape, np.float32), np.zeros(shape, np.int32))
        for number in range(steps):
            returns, lengths = self._step(first + number, active)
            ended.episode_return[number], ended.length[number] = returns, lengths
        return ended

    def _padded(self, values: HostArray) -> HostArray:
        """Values of lanes [lane, …] as [width, environment, …], those of the last trial repeated as padding."""
        by_trial = values.reshape(self.real, self._environments, *values.shape[1:])
        return np.concatenate([by_trial, np.repeat(by_trial[-1:], len(self._place) - self.real, axis=0)])

    def _mask(self) -> Any:
        """The legal actions [width, environment, action] where the environments are; () where none are told."""
        board = self.board
        return self._padded(board.legal(np.arange(len(board.time)), board.time)) if self._masked else ()

    def _step(self, step: int, active: HostArray) -> tuple[HostArray, HostArray]:
        board, seed, now = self.board, np.uint32(self._experiment.seed), np.int32(step)
        seen, mask = self._padded(self._observation), self._mask()
        state = self.carried.learner
        action, behaviour = on_host(self._act(seed, now, self._trial, self._hyper, state, seen, mask))
        lanes = np.flatnonzero(np.repeat(active[self._place[: self.real]], self._environments))
        time = self._length[lanes]
        board.action[lanes, time] = action[: self.real].reshape(-1)[lanes]
        board.command[lanes] = boards.STEP
        self._send(lanes)
        self._wait()
        reward = np.zeros(len(self._episode), np.float32)
        reward[lanes] = board.reward[lanes, time]
        status = np.full(len(self._episode), boards.RUNNING, np.uint8)
        status[lanes] = board.status[lanes]
        after = self._observation.copy()
        after[lanes] = board.shown(lanes, time + 1)
        steps: Any = {  # on the host
            "observation": np.stack([seen, self._padded(after)], axis=1),
            "action": action[:, None],
            "reward": self._padded(reward)[:, None],
            "terminated": self._padded(status == boards.TERMINATED)[:, None],
            "truncated": self._padded(status == boards.TRUNCATED)[:, None],
            "valid": np.broadcast_to(active[self._place][:, None, None], (len(self._place), 1, self._environments)),
            "behaviour": behaviour[:, None],
            "mask": np.stack([mask, self._mask()], axis=1) if self._masked else (),
        }
        batch = Batch(**steps)
        over = status != boards.RUNNING
        begun = np.flatnonzero(over)
        self._earned += reward
        self._length[lanes] += 1
        returns = np.where(over, self._earned, 0).astype(np.float32).reshape(self.real, -1)
        lengths = np.where(over, self._length, 0).astype(np.int32).reshape(self.real, -1)
        self._observation = after
        self._episode[begun] += 1
        self._length[begun], self._earned[begun], self._observation[begun] = 0, 0, 0
        if len(begun):  # which takes place while the trials learn
            self._reset(begun)
        self.carried = self._learn(seed, now, self._trial, self._hyper, self.carried, batch, active[self._place])
        self._wait()
        self._observation[begun] = board.observation[begun, 0]
        return returns, lengths


class HostedTrials:
    """Trials whose environments live in worker processes."""

    def __init__(
        self,
        experiment: Experiment,
        environment: EnvironmentSpec,
        width: int,
        carried: Carried,
        saved: Arrays | None,
        limits: WorkerLimits,
    ) -> None:
        """With what trials [trials] carry, on the host, and the arrays of a checkpoint, if any."""
        self._experiment = experiment
        groups = math.ceil(experiment.trials / width)
        share = limits._replace(workers=max(1, (limits.workers or len(jax.devices())) // groups))
        self._step = int(np.max(carried.learner.update))
        self._groups: list[_Group] = []
        self._threads = concurrent.futures.ThreadPoolExecutor(groups, thread_name_prefix="mac-trials")
        try:
            for group in range(groups):
                place = np.minimum(np.arange(group * width, (group + 1) * width), experiment.trials - 1)
                real = min(width, experiment.trials - group * width)
                device = jax.devices()[group % len(jax.devices())]
                self._groups.append(_Group(experiment, environment, place, real, carried, device, share))
            self._each(lambda group: group.begin() if saved is None else self._restore(group, saved))
        except BaseException:
            self.close()
            raise

    def _each(self, call: Callable[[_Group], Any]) -> list[Any]:
        """What a call gives for each group, all of them at once."""
        return [future.result() for future in [self._threads.submit(call, group) for group in self._groups]]

    def _restore(self, group: _Group, saved: Arrays) -> None:
        shape = (self._experiment.trials, self._experiment.environments)
        names = ("episode", "length", "actions", "observation")
        episode, length, actions, observation = (saved.get(PLAYING + name, np.zeros(0)) for name in names)
        whole = episode.shape == length.shape == actions.shape[:2] == observation.shape[:2] == shape
        if not whole or not np.array_equal(np.sum(actions >= 0, axis=2), length):
            raise DamagedFileError("checkpoint: what its environments are at does not fit the manifest")
        own = slice(group.first, group.first + group.real)
        lanes = actions[own].reshape(group.real * shape[1], actions.shape[2])
        way = _Way(episode[own].ravel(), [lane[lane >= 0].tolist() for lane in lanes])
        group.go_back(way, observation[own].reshape(len(lanes), -1))

    def advance(self, steps: int, active: HostArray) -> stepped.Ended:
        """See `Trials`."""
        step = self._step
        parts = self._each(lambda group: group.advance(step, steps, active))
        self._step += steps
        return stepped.Ended(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))

    def carried(self, part: Callable[[Carried], Any] = whole) -> Any:
        """See `Trials`."""
        return jax.tree.map(
            lambda *arrays: joined(
                [np.asarray(x)[: group.real] for group, x in zip(self._groups, arrays, strict=True)]
            ),
            *(on_host(part(group.carried)) for group in self._groups),
        )

    def arrays(self) -> Arrays:
        """See `Trials`: seeds and actions of the episodes under way, and what they led to."""
        ways, seen = zip(*(group.way() for group in self._groups), strict=True)
        shape = (self._experiment.trials, self._experiment.environments)
        each = [own for way in ways for own in way.actions]
        actions = np.full((len(each), max(map(len, each))), -1, np.int32)
        for row, own in zip(actions, each, strict=True):
            row[: len(own)] = own
        return {
            f"{PLAYING}episode": np.concatenate([way.episode for way in ways]).reshape(shape),
            f"{PLAYING}length": np.array([len(own) for own in each], np.int32).reshape(shape),
            f"{PLAYING}actions": actions.reshape(*shape, actions.shape[1]),
            f"{PLAYING}observation": np.concatenate(seen).reshape(*shape, -1),
        }

    def close(self) -> None:
        """End the worker processes."""
        for group in self._groups:
            group.fleet.close()
        self._threads.shutdown(wait=False)

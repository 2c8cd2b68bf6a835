"""Trials that are stepped together with environments in worker processes.

Trials are split into groups, one for each device. A group has its own workers and its own thread: it acts for all its
trials in one call, lets the environments step, and after the last step of a rollout learns in another call while new
episodes are begun. A trial's bits depend on the width of its group, not on its neighbours or on the number of workers.

A checkpoint holds the seeds and actions of the episodes that were under way after the last whole rollout. To go on,
they are played again; the observation that this leads to must be the one that was left.
"""

import concurrent.futures
import functools
import math
import threading
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
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array as HostArray
from mean_actor_critic.trees import Arrays


@functools.cache
def acting_program(setup: Any) -> Callable[..., tuple[Array, Array]]:
    """Compiled `(seed, context, trial [lane], hyper [lane], state [lane], observation [lane, environment, …], mask)`.

    Gives the actions [lane, environment] and the probabilities that they had.
    """

    def act(
        seed: Array, context: Context, trial: Array, hyper: Any, state: Any, observation: Array, mask: Any
    ) -> tuple[Array, Array]:
        def one(trial: Array, hyper: Any, state: Any, observation: Array, mask: Any) -> tuple[Array, Array]:
            key = stepping_keys(seed, trial, context.step).actions
            return stepped.choose(setup, context, hyper, state, observation.astype(np.float32), mask, key)

        return jax.vmap(one)(trial, hyper, state, observation, mask)

    return jax.jit(act)


@functools.cache
def learning_program(setup: Any) -> Callable[..., Carried]:
    """Compiled `(seed, context, trial [lane], hyper [lane], carried [lane], batch [lane], active [lane])`.

    A lane that is not active stays as it is. What is given as carried is consumed.
    """

    def learn(
        seed: Array, context: Context, trial: Array, hyper: Any, carried: Carried, batch: Batch, active: Array
    ) -> Carried:
        def one(trial: Array, hyper: Any, carried: Carried, batch: Batch, active: Array) -> Carried:
            key = stepping_keys(seed, trial, context.step).minibatches
            batch = batch._replace(observation=batch.observation.astype(np.float32))  # of bytes, where it is these
            new, _ = update(setup, context, hyper, carried, batch, key)
            keep = functools.partial(jax.numpy.where, active)
            return new._replace(learner=jax.tree.map(keep, new.learner, carried.learner))

        return jax.vmap(one)(trial, hyper, carried, batch, active)

    return jax.jit(learn, donate_argnums=4)


def whole(carried: Carried) -> Carried:
    """All that trials carry."""
    return carried


class _Taken(NamedTuple):
    """A step of all environments [width, environment …]."""

    observation: HostArray  # that was acted in
    action: HostArray
    behaviour: HostArray  # the probability that the action had
    reward: HostArray
    terminated: HostArray
    truncated: HostArray
    after: HostArray  # the observation that the action led to, before a new episode began, if one did
    mask: Any  # legal actions [width, environment, action] when it was acted, where they are told
    mask_after: Any  # and in what the action led to


class _Left(NamedTuple):
    """Where each environment [lane] was after the last whole rollout, which is what a checkpoint is about."""

    episode: HostArray  # int32: how many were begun before
    length: HostArray  # int32: steps of the episode under way
    observation: HostArray
    actions: dict[int, list[int]]  # of episodes that have ended since


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
        self._value = stepped.valuing_program(experiment.setup)
        lanes = np.arange(real * self._environments)
        workers = limits.workers_for(len(lanes))
        self._cohorts = [lanes[worker::workers] for worker in range(workers)]
        build, spaces = environment.build, environment.spaces
        self.fleet = Fleet(environment.name, build, spaces, self._limit, self._cohorts, limits, whole=False)
        self.board = self.fleet.board
        # where each environment is
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
        self._leave()

    def _leave(self) -> None:
        """Note where the environments are, for checkpoints."""
        self._left = _Left(self._episode.copy(), self._length.copy(), self._observation, {})

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
        self._leave()

    def way(self) -> tuple[_Way, HostArray]:
        """How to come back to where the environments were left, and what they showed there."""
        episode, lengths, observation, kept = self._left
        actions = [
            kept[lane] if lane in kept else self.board.action[lane, :length].tolist()
            for lane, length in enumerate(lengths)
        ]
        return _Way(episode, actions), observation.copy()

    def advance(self, first: int, rollouts: int, active: HostArray, stop: threading.Event) -> stepped.Advanced:
        """Take rollouts from number `first` on, but none after `stop` is set, which a fault here does, too."""
        steps = self._experiment.rollout_steps
        shape = (rollouts * steps, self.real, self._environments)
        ended = stepped.Ended(np.zeros(shape, np.float32), np.zeros(shape, np.int32))
        own_active = active[self._place[: self.real]]
        taken, fault = 0, None
        try:
            while own_active.any() and taken < rollouts and not stop.is_set():
                own = slice(taken * steps, (taken + 1) * steps)
                begun = self._rollout(first + taken, active, stepped.Ended(*(x[own] for x in ended)))
                taken += 1  # whatever goes wrong now: it has been learned from
                self._see(begun)
        except Exception as caught:  # of an environment, or of a learner of the user's own
            stop.set()
            fault = caught
        for array in ended:
            array[taken * steps :] = 0  # of a rollout that was not taken to its end
        return stepped.Advanced(ended, np.where(own_active, taken, 0), fault)

    def _padded(self, values: HostArray) -> HostArray:
        """Values of lanes [lane, …] as [width, environment, …], those of the last trial repeated as padding."""
        by_trial = values.reshape(self.real, self._environments, *values.shape[1:])
        return np.concatenate([by_trial, np.repeat(by_trial[-1:], len(self._place) - self.real, axis=0)])

    def _mask(self) -> Any:
        """The legal actions [width, environment, action] where the environments are; () where none are told."""
        board = self.board
        return self._padded(board.legal(np.arange(len(board.time)), board.time)) if self._masked else ()

    def _rollout(self, number: int, active: HostArray, ended: stepped.Ended) -> HostArray:
        """Take a rollout and learn from it; the episodes that end are written into `ended` [steps, …].

        Returns the lanes whose next episode has been asked for, to be seen (`_see`) before the next rollout.
        """
        seed, steps, own = np.uint32(self._experiment.seed), self._experiment.rollout_steps, active[self._place]
        taken = []
        for time in range(steps):
            if time:
                self._see(self._begin(ended.length[time - 1]))
            now, ended.episode_return[time], ended.length[time] = self._step(number * steps + time, active)
            taken.append(now)
        all_: _Taken = jax.tree.map(lambda *steps: np.stack(steps, axis=1), *taken)
        parts: Any = {  # on the host
            "observation": np.concatenate([all_.observation, all_.after[:, -1:]], axis=1),
            "action": all_.action,
            "reward": all_.reward,
            "terminated": all_.terminated,
            "truncated": all_.truncated,
            "valid": np.broadcast_to(own[:, None, None], all_.action.shape),
            "behaviour": all_.behaviour,
            "value_beyond": self._value_beyond(all_),
            "mask": np.concatenate([all_.mask, all_.mask_after[:, -1:]], axis=1) if self._masked else (),
        }
        begun = self._begin(ended.length[-1])  # which takes place while the trials learn
        context = self._context(number * steps)
        self.carried = self._learn(seed, context, self._trial, self._hyper, self.carried, Batch(**parts), own)
        self._leave()
        return begun

    def _context(self, step: int) -> Context:
        return stepped.context_at(np.int32(step), np.int32(self._experiment.updates))

    def _step(self, step: int, active: HostArray) -> tuple[_Taken, HostArray, HostArray]:
        """Take a step of all environments, and give returns and lengths of the episodes that ended with it."""
        board, seed = self.board, np.uint32(self._experiment.seed)
        seen, mask = self._padded(self._observation), self._mask()
        state = self.carried.learner
        acted = self._act(seed, self._context(step), self._trial, self._hyper, state, seen, mask)
        action, behaviour = on_host(acted)
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
        self._observation = self._observation.copy()
        self._observation[lanes] = board.shown(lanes, time + 1)
        self._earned += reward
        self._length[lanes] += 1
        over = status != boards.RUNNING
        returns = np.where(over, self._earned, 0).astype(np.float32).reshape(self.real, -1)
        lengths = np.where(over, self._length, 0).astype(np.int32).reshape(self.real, -1)
        taken = _Taken(
            observation=seen,
            action=action,
            behaviour=behaviour,
            reward=self._padded(reward),
            terminated=self._padded(status == boards.TERMINATED),
            truncated=self._padded(status == boards.TRUNCATED),
            after=self._padded(self._observation),
            mask=mask,
            mask_after=self._mask(),
        )
        return taken, returns, lengths

    def _value_beyond(self, taken: _Taken) -> HostArray:
        """What the states [width, step, environment] are worth in which episodes were cut off, where that counts."""
        if not stepped.wants_value_beyond(self._experiment.setup) or not taken.truncated.any():
            return np.zeros_like(taken.reward)
        worth = on_host(self._value(self.carried.learner, taken.after, taken.mask_after))
        return np.where(taken.truncated, worth, np.float32(0))

    def _begin(self, lengths: HostArray) -> HostArray:
        """Ask for new episodes where one has ended, of some length [real, environment]; `_see` what they show."""
        begun = np.flatnonzero(lengths)
        for lane in begun.tolist():
            self._left.actions.setdefault(lane, self.board.action[lane, : self._left.length[lane]].tolist())
        self._episode[begun] += 1
        self._length[begun], self._earned[begun], self._observation[begun] = 0, 0, 0
        self._reset(begun)
        return begun

    def _see(self, begun: HostArray) -> None:
        """Wait for what was asked for, and look at the first observations of the episodes that have begun."""
        self._wait()
        self._observation[begun] = self.board.observation[begun, 0]


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
        self._groups: list[_Group] = []
        self._stop = threading.Event()
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

    def advance(self, first: int, rollouts: int, active: HostArray) -> stepped.Advanced:
        """See `Trials`. When a group fails, the others take the rollout that they are in to its end, and no more."""
        parts = self._each(lambda group: group.advance(first, rollouts, active, self._stop))
        ended = (np.concatenate(arrays, axis=1) for arrays in zip(*(part.ended for part in parts), strict=True))
        fault = next((part.fault for part in parts if part.fault is not None), None)
        return stepped.Advanced(stepped.Ended(*ended), np.concatenate([part.taken for part in parts]), fault)

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
        self._stop.set()  # where a signal does not wait for the rollouts under way
        for group in self._groups:
            group.fleet.close()
        self._threads.shutdown(wait=False)

"""Playing trained agents without learning."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.runs.agent import Agent, Networks
from mean_actor_critic.spec.atari_experiment import ENGINE, AtariExperiment, AtariSetup, played_otherwise
from mean_actor_critic.runs.atari_run import AtariRun
from mean_actor_critic.environments.atari import Game, find_game
from mean_actor_critic.environments.catalogue import EnvironmentSpec, environment_of
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS, WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import EPISODES, SEEDS, Setup, require_whole
from mean_actor_critic.learning.networks import GameNetwork
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.runs.run import Run
from mean_actor_critic.engines import vector as atari, compiled, devices, hosted
from mean_actor_critic.learning.randomness import evaluation_keys
from mean_actor_critic.learning.types import Actor, Normalizer, Trajectory
from mean_actor_critic.runs.run import Run
from mean_actor_critic.engines import vector as atari
from mean_actor_critic.engines import compiled
from mean_actor_critic.engines import devices
from mean_actor_critic.engines import hosted
from mean_actor_critic.engines.memory import memory_faults
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.learning.randomness import evaluation_keys
from mean_actor_critic.learning.types import Actor
from mean_actor_critic.learning.types import Normalizer
from mean_actor_critic.learning.types import Trajectory

CHUNK = 20  # episodes that one call plays, so that progress and Ctrl-C come in between
LANES = 64  # hosted environments at once
GAMES = 16  # Atari games at once
NO_TRAINING = 2**30  # the number of an evaluation that none in training has

Returns = np.ndarray[Any, Any]


@memory_faults("evaluation")
def evaluate(
    player: Run | AtariRun | Agent,
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    environment: Any = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    on_progress: Show | None = None,
) -> Returns:
    """Undiscounted returns [trials, episodes] of fresh episodes; one trial for an agent, all of them for a run.

    Args:
        player: who plays.
        episodes: how many each.
        deterministic: take the most probable action instead of sampling.
        seed: of the episodes; they are never those of training.
        environment: what the agents were trained on, if it cannot be found by name.
        settings: rules of an Atari game that are to be others than in training: sticky actions, say.
        workers: processes that step hosted environments, or threads that step Atari emulators; by default one per core.
        step_seconds: a hosted environment that takes longer for one step is taken to hang.
        on_progress: called now and then.
    """
    episodes = require_whole("episodes", episodes, *EPISODES)
    seed = require_whole("seed", seed, *SEEDS)
    limits = WorkerLimits(workers, step_seconds).checked()
    experiment = player.experiment
    agents = [player] if isinstance(player, Agent) else [player.agent(trial) for trial in range(experiment.trials)]
    if isinstance(experiment, AtariExperiment):
        setup = played_otherwise(experiment.setup, settings or {})
        numbers = experiment.trial_numbers()[[agent.trial for agent in agents]]
        game = find_game(setup, environment)
        return _play_games(setup, game, agents, numbers, episodes, deterministic, seed, workers or 0, on_progress)
    if settings:
        raise InputError("settings", ", ".join(settings), "players of Atari games")
    spec = environment_of(experiment, agents[0].spaces, environment, step_seconds)
    devices.prepare(spec.engine)
    actors = stacked(agents)
    trials = experiment.trial_numbers()[[agent.trial for agent in agents]]
    performance = _Performance(experiment.setup, spec, actors, trials, episodes, deterministic, seed, on_progress)
    if spec.engine == "hosted":
        return _play_hosted(performance, limits)
    return _play_compiled(performance)


class _Performance(NamedTuple):
    """What is to be played, by whom."""

    setup: Setup
    spec: EnvironmentSpec
    actors: Actor  # [agent]
    trials: Returns  # [agent] their numbers
    episodes: int
    greedy: bool
    seed: int
    on_progress: Show | None

    def no_returns(self) -> Returns:
        """NaN [agent, episode]."""
        return np.full((len(self.trials), self.episodes), np.nan, np.float32)

    def report(self, returns: Returns) -> None:
        """Show how far it is."""
        if self.on_progress:
            played = np.isfinite(returns)
            self.on_progress(Progress(int(played.sum()), returns.size, float(np.mean(returns[played])), diverged=0))


def stacked(agents: Sequence[Agent]) -> Actor:
    """The acting parts of agents, stacked [agent]."""

    def acting(agent: Agent) -> Actor:
        observations: Any = np.float32(0)  # how many there were is of no use without learning
        assert isinstance(agent.networks, Networks)
        normalizer = agent.networks.normalizer
        return Actor(agent.policy, Normalizer(normalizer[0], normalizer[1], observations) if normalizer else ())

    return jax.tree.map(lambda *parts: np.stack(parts), *map(acting, agents))


def _play_compiled(wanted: _Performance) -> Returns:
    play = _player(wanted.setup, wanted.spec.build, wanted.greedy)
    returns = wanted.no_returns()
    for first in range(0, wanted.episodes, CHUNK):
        count = min(CHUNK, wanted.episodes - first)
        played = play(np.uint32(wanted.seed), wanted.trials, wanted.actors, np.int32(first))
        returns[:, first : first + count] = on_host(played)[:, :count]
        wanted.report(returns)
    return returns


@functools.cache
def _player(setup: Setup, build: compiled.Build, greedy: bool) -> Any:
    """Compiled `(seed [], trial [lane], actor [lane], first []) -> returns [lane, CHUNK]` of episodes from `first`."""

    def play(seed: Array, trial: Array, actor: Actor, first: Array) -> Array:
        def episode(number: Array) -> Array:
            keys = jax.vmap(lambda trial: evaluation_keys(seed, trial, number))(trial)
            return jnp.sum(compiled.rollout(setup, build, actor, keys, greedy).reward, axis=1)

        return jax.lax.map(episode, first + jnp.arange(CHUNK)).T

    return jax.jit(play)


def _play_hosted(wanted: _Performance, limits: WorkerLimits) -> Returns:
    returns = wanted.no_returns()
    to_play = [(agent, episode) for episode in range(wanted.episodes) for agent in range(len(wanted.trials))]
    for key, trajectory in hosted_episodes(
        wanted.setup, wanted.spec, wanted.actors, wanted.trials, to_play, wanted.seed, limits, wanted.greedy
    ):
        returns[key] = np.sum(trajectory.reward, dtype=np.float64)
        wanted.report(returns)
    return returns


def hosted_episodes(
    setup: Setup,
    spec: EnvironmentSpec,
    actors: Actor,
    trials: Returns,
    to_play: Sequence[tuple[int, int]],
    seed: int,
    limits: WorkerLimits,
    greedy: bool = False,
) -> Iterator[tuple[tuple[int, int], Trajectory]]:
    """Play episodes of stacked actors [agent], and yield each [1, time, …] as it ends.

    Lanes take the next (agent, episode) that nobody has played, until none is left.

    Args:
        setup: of the experiment.
        spec: its environment.
        actors: [agent].
        trials: [agent] their numbers.
        to_play: (agent, episode), which begin in this order.
        seed: of the episodes.
        limits: of the workers.
        greedy: take the most probable actions.
    """
    waiting = list(to_play)[::-1]
    agents, lanes = len(trials), min(LANES, len(waiting))
    draw = hosted.drawing_program(setup.max_episode_steps, evaluation_keys)
    playing: dict[int, tuple[int, int]] = {}
    on_lanes = jax.tree.map(lambda x: x[np.arange(lanes) % agents], actors)
    troupe = hosted.Troupe(setup, spec, on_lanes, limits, greedy)

    def begin(lane: int) -> None:
        agent, episode = playing[lane] = waiting.pop()
        number = int(trials[agent])
        if agents > 1:
            troupe.replace(np.array([lane]), jax.tree.map(lambda x: x[[agent]], actors))
        draws = np.asarray(draw(np.uint32(seed), np.array([number], np.int32), np.array([episode], np.int32)))[0]
        troupe.begin(lane, number, episode, reset_seed(seed, number, episode, evaluation=True), draws)

    try:
        for lane in range(lanes):
            begin(lane)
        while playing:
            for lane in troupe.turn().tolist():
                ended, trajectory = playing.pop(lane), troupe.trajectories(np.array([lane]))
                if waiting:
                    begin(lane)
                yield ended, trajectory
    finally:
        troupe.close()


def _play_games(
    setup: AtariSetup,
    game: Game,
    agents: Sequence[Agent],
    numbers: Returns,
    games: int,
    greedy: bool,
    seed: int,
    threads: int,
    on_progress: Show | None,
) -> Returns:
    """Raw scores of whole games, in batches, as evaluations in training play them."""
    devices.prepare(ENGINE)
    scores = np.full((len(agents), games), np.nan, np.float32)
    for place, agent in enumerate(agents):
        trial = int(numbers[place])
        emulators = atari.evaluation_emulators(setup, game, min(GAMES, games), seed, trial, NO_TRAINING, threads)
        assert isinstance(agent.networks, GameNetwork)
        endless = -(-games // GAMES) * setup.max_episode_frames
        evaluation = atari.Evaluation(
            setup, emulators, agent.networks, seed, trial, NO_TRAINING, games=games, steps=endless, greedy=greedy
        )
        while not evaluation.finished:
            evaluation.turn()
            if on_progress:
                done = place * games + min(games, evaluation.games_over)
                mean = float(np.mean(evaluation.scores)) if len(evaluation.scores) else np.nan
                on_progress(Progress(done, scores.size, mean, 0, f"{evaluation.step} steps"))
        scores[place] = evaluation.scores[:games]
    return scores

"""Playing trained agents without learning."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic.engines import devices, vector
from mean_actor_critic.engines.memory import memory_faults
from mean_actor_critic.engines.play import Playing, Turn, compiled_returns, hosted_episodes
from mean_actor_critic.environments.catalogue import EnvironmentSpec, environment_of
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS, WorkerLimits
from mean_actor_critic.errors import InputError
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.players import Player, agents_of, load_player
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.experiment import AMOUNTS, SEEDS, Experiment
from mean_actor_critic.spec.learners import EPISODES
from mean_actor_critic.spec.rules import GameRules, with_other_rules
from mean_actor_critic.trees import Array

GAMES = 16  # Atari games at once
NO_TRAINING = 2**30  # the number of an evaluation that none in training has


@memory_faults("evaluation")
def evaluate(
    player: Player,
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    environment: Any = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    on_progress: Show | None = None,
) -> Array:
    """Undiscounted returns [trials, episodes] of fresh episodes; one trial for an agent, all of them for a run.

    Args:
        player: who plays: a run, an agent, or the path of either.
        episodes: how many each.
        deterministic: take the most probable action instead of sampling.
        seed: of the episodes; they are never those of training.
        environment: what the agents were trained on, if it cannot be found by name.
        settings: rules of an Atari game that are to be others than in training: sticky actions, say.
        workers: processes that step hosted environments, or threads that step Atari emulators; by default one per core.
        step_seconds: a hosted environment that takes longer for one step is taken to hang.
        on_progress: called now and then.
    """
    episodes = require_whole("episodes", episodes, *AMOUNTS[EPISODES])
    seed = require_whole("seed", seed, *SEEDS)
    limits = WorkerLimits(workers, step_seconds).checked()
    loaded = load_player(player)
    experiment = loaded.experiment
    agents = agents_of(loaded)
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError("settings", settings, "values by name")
    if settings:
        if not isinstance(experiment.rules, GameRules):
            raise InputError("settings", ", ".join(settings), "players of Atari games")
        experiment = dataclasses.replace(experiment, rules=with_other_rules(experiment.rules, settings))
    spec = environment_of(experiment, agents[0].spaces, environment, step_seconds)
    devices.prepare(spec.engine)
    trials = experiment.trial_numbers()[[agent.trial for agent in agents]]
    performance = _Performance(experiment, spec, agents, trials, episodes, deterministic, seed, on_progress)
    return _ENGINES[spec.engine](performance, limits)


class _Performance(NamedTuple):
    """What is to be played, by whom."""

    experiment: Experiment
    spec: EnvironmentSpec
    agents: Sequence[Agent]
    trials: Array  # [agent] their numbers
    episodes: int
    greedy: bool
    seed: int
    on_progress: Show | None

    def no_returns(self) -> Array:
        """NaN [agent, episode]."""
        return np.full((len(self.trials), self.episodes), np.nan, np.float32)

    def report(self, returns: Array) -> None:
        """Show how far it is."""
        if self.on_progress:
            played = np.isfinite(returns)
            self.on_progress(Progress(int(played.sum()), returns.size, float(np.mean(returns[played])), diverged=0))


def stacked(agents: Sequence[Agent]) -> Any:
    """The actors of agents of one learner, stacked [agent]."""
    player = learner_of(agents[0].experiment.setup).player
    return jax.tree.map(lambda *parts: np.stack(parts), *(player(agent.networks) for agent in agents))


def _play_compiled(wanted: _Performance, limits: WorkerLimits) -> Array:
    del limits  # of processes, of which there are none
    return compiled_returns(
        wanted.experiment,
        wanted.spec,
        Playing(stacked(wanted.agents), wanted.trials, (wanted.greedy,)),
        range(wanted.episodes),
        seed=wanted.seed,
        on_chunk=wanted.report,
    )[0]


def _play_hosted(wanted: _Performance, limits: WorkerLimits) -> Array:
    returns = wanted.no_returns()
    agents = range(len(wanted.trials))
    turns = [Turn(agent, episode, wanted.greedy) for episode in range(wanted.episodes) for agent in agents]
    actors = stacked(wanted.agents)
    for turn, episode in hosted_episodes(
        wanted.experiment, wanted.spec, actors, wanted.trials, turns, wanted.seed, limits
    ):
        returns[turn.agent, turn.episode] = np.sum(episode.reward, dtype=np.float64)
        wanted.report(returns)
    return returns


def _play_games(wanted: _Performance, limits: WorkerLimits) -> Array:
    """Raw scores of whole games, in batches, as evaluations in training play them."""
    scores, experiment, game = wanted.no_returns(), wanted.experiment, wanted.spec.build()
    rules: Any = experiment.rules
    for place, agent in enumerate(wanted.agents):
        trial, seed, games = int(wanted.trials[place]), wanted.seed, wanted.episodes
        emulators = vector.evaluation_emulators(
            rules, game, min(GAMES, games), seed, trial, NO_TRAINING, limits.workers or 0
        )
        endless = -(-games // GAMES) * rules.max_episode_frames
        actor = learner_of(experiment.setup).player(agent.networks)
        evaluation = vector.Evaluation(
            experiment, emulators, actor, seed, trial, NO_TRAINING, games=games, steps=endless, greedy=wanted.greedy
        )
        while not evaluation.finished:
            evaluation.turn()
            if wanted.on_progress:
                done = place * games + min(games, evaluation.games_over)
                mean = float(np.mean(evaluation.scores)) if len(evaluation.scores) else np.nan
                wanted.on_progress(Progress(done, scores.size, mean, 0, f"{evaluation.step} steps"))
        scores[place] = evaluation.scores[:games]
    return scores


_ENGINES = {"compiled": _play_compiled, "hosted": _play_hosted, "atari": _play_games}

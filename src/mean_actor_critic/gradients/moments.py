"""A trial at several moments of its training: what `mac gradients` measures."""

from collections.abc import Sequence
from typing import Any

import jax

from mean_actor_critic.engines import devices
from mean_actor_critic.environments.catalogue import environment_of
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS, WorkerLimits
from mean_actor_critic.errors import InputError
from mean_actor_critic.gradients import deep
from mean_actor_critic.gradients.theory import EPISODE, MOST_BATCHES, UPDATE, Trial
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.collect import collect
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec import paper
from mean_actor_critic.spec.algorithms import ALGORITHMS, CRITIC
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.experiment import SEEDS
from mean_actor_critic.spec.learners import EpisodicSetup
from mean_actor_critic.spec.settings import is_whole

BATCHES = ("1", "16", EPISODE)
REPLICATES = (100, 100_000)
SAMPLES = 100_000  # steps of the reference gradient, at least
LARGEST_BATCH = 100_000
MOST_PARAMETERS = 12_000  # of a policy: a thousand episodes with five gradients each, and as many resamples, in memory


def parse_batches(text: str) -> tuple[str, ...]:
    """From words such as 1,16,episode.

    Raises:
        InputError: a word is not a batch.
    """
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in (EPISODE, UPDATE) and not is_whole(_as_number(word), 1, LARGEST_BATCH):
            allowed = (
                f"numbers of independent states up to {LARGEST_BATCH}, {EPISODE} and {UPDATE}, such as 1,16,episode"
            )
            raise InputError("batch sizes", word, allowed)
    batches = tuple(dict.fromkeys(word if word in (EPISODE, UPDATE) else str(_as_number(word)) for word in words))
    if len(batches) > MOST_BATCHES:
        raise InputError("batch sizes", text, f"up to {MOST_BATCHES} of them")
    return batches


def _as_number(word: str) -> int | None:
    """A number in digits, of no more than Python reads; None if it is none."""
    try:
        return int(word)
    except ValueError:
        return None


def frozen_agents(player: Run | Agent, trial: int = 0) -> list[tuple[int, Agent]]:
    """A trial's agents by the episodes they had trained for: at its snapshots, or the last checkpoint without any.

    Raises:
        InputError: it has no critic, no checkpoint, or diverged.
    """
    experiment, setup = player.experiment, player.experiment.setup
    if not isinstance(setup, EpisodicSetup):
        raise InputError("RUN|AGENT", experiment.environment, "one that learned by episodes, not on an Atari game")
    if setup.masked:
        raise InputError("RUN|AGENT", experiment.environment, "one without action masks: they are not measured")
    if not setup.has_critic:
        with_critic = ", ".join(name for name in paper.COMPARED if CRITIC in ALGORITHMS[name].parts)
        allowed = f"a run or agent of an algorithm with a critic: {with_critic}"
        raise InputError("RUN|AGENT", experiment.algorithm, allowed)
    if isinstance(player, Agent):
        return [(experiment.episodes or 0, player)]
    trial = require_whole("trial", trial, 0, experiment.trials - 1)
    diverged = int(player.diverged_at[trial])
    if diverged:
        raise InputError("trial", trial, f"one that did not diverge; this one did at episode {diverged}")
    if player.snapshots:
        return [(episode, player.agent(trial, episode)) for episode in player.snapshots]
    return [(int(player.episodes_done[trial]), player.agent(trial))]


def measure_trial(
    player: Run | Agent,
    trial: int = 0,
    *,
    batches: Sequence[str] = BATCHES,
    replicates: int = 1000,
    samples: int = SAMPLES,
    seed: int = 0,
    environment: Any = None,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    on_progress: Show | None = None,
) -> Trial:
    """Bias and variance of every estimator for one trial, at each moment from which its networks were kept.

    Args:
        player: a run, best one with snapshots, or an agent.
        trial: of the run.
        batches: numbers of independent states, "episode", "update".
        replicates: estimates of each kind, and episodes to play at least.
        samples: agent steps to play at least.
        seed: of the episodes, which are never those of training, and of all draws.
        environment: what the agents were trained on, if it cannot be found by name.
        workers: processes that step hosted environments; by default one per core.
        step_seconds: a hosted environment that takes longer for one step is taken to hang.
        on_progress: called after each moment.

    Raises:
        InputError: there is nothing to measure.
    """
    replicates = require_whole("replicates", replicates, *REPLICATES)
    seed = require_whole("seed", seed, *SEEDS)
    limits = WorkerLimits(workers, step_seconds).checked()
    agents = frozen_agents(player, trial)
    experiment, spaces = player.experiment, agents[0][1].spaces
    parameters = sum(x.size for x in jax.tree.leaves(agents[0][1].policy))
    if parameters > MOST_PARAMETERS:
        raise InputError("policy", f"{parameters} parameters", f"up to {MOST_PARAMETERS}")
    spec = environment_of(experiment, spaces, environment, step_seconds)
    devices.prepare(spec.engine)
    moments = []
    for place, (episode, agent) in enumerate(agents, start=1):
        pool = collect(agent, spec, replicates, samples, seed, limits)
        moments.append(deep.measure(agent, episode, pool, batches, replicates, seed))
        if on_progress:
            on_progress(Progress(place, len(agents), float(pool.scores.mean()), diverged=0))
    return Trial(
        environment=experiment.environment,
        algorithm=experiment.algorithm,
        trial=agents[0][1].trial,
        actions=spaces.actions,
        parameters=parameters,
        replicates=replicates,
        seed=seed,
        moments=tuple(moments),
    )

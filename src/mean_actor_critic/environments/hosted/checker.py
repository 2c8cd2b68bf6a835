"""`mac check`: what would go wrong with an environment, in plain words. Runs in a worker process."""

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from mean_actor_critic.environments.hosted import masks
from mean_actor_critic.environments.hosted.factory import FactoryError
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.environments.spaces import FormError, Spaces, check_spaces, flatten, texts_in
from mean_actor_critic.errors import NO_LEGAL_ACTION, InputError

EPISODES = 5
LONGEST = 2000  # steps of a checked episode
LARGE_OBSERVATION = 20.0
LARGE_REWARD = 1000.0
SLOW_STEPS_PER_SECOND = 200.0


class Finding(NamedTuple):
    """One line of a check."""

    level: str  # "ok", "note", or "problem"
    text: str


class Episode(NamedTuple):
    """What came of one played episode."""

    observations: list[Any]  # flattened
    rewards: list[float]
    terminated: bool
    truncated: bool
    masks: list[Any]  # of each state in which an action was chosen: which were legal, or None where nobody told


class Broken(Exception):  # noqa: N818
    """The environment cannot be played on; the message says what it did."""


def check(channel: Any, name: str, factory: Callable[..., "gymnasium.Env[Any, Any]"]) -> None:
    """Tell findings one by one, each before the next thing is tried."""
    channel.tell(trying="making it")
    try:
        environment = factory()
        spaces = check_spaces(name, environment.observation_space, environment.action_space)
    except (FactoryError, InputError) as fault:
        return channel.tell(level="problem", text=str(fault))
    size = spaces.observation_size
    channel.tell(level="ok", text=f"{spaces.actions} actions, observations of {size} numbers when flattened")
    texts = texts_in(spaces.observation)
    if texts:
        channel.tell(level="note", text=f"an agent is not shown the text in observations: {', '.join(texts)}")
    try:
        for finding in itertools.chain(_gymnasium_s_view(channel, factory), _ours(channel, environment, spaces)):
            channel.tell(**finding._asdict())
    except Broken as fault:
        channel.tell(level="problem", text=str(fault))
    channel.tell(trying="closing it")
    environment.close()
    return channel.tell(done=True)


def _gymnasium_s_view(channel: Any, factory: Callable[..., "gymnasium.Env[Any, Any]"]) -> Iterator[Finding]:
    """Gymnasium's own checker on an environment of its own."""
    channel.tell(trying="Gymnasium's checker")
    environment = factory()
    level = gymnasium.logger.min_level
    gymnasium.logger.min_level = gymnasium.logger.WARN
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        try:
            check_env(environment.unwrapped, skip_render_check=True)
        except Exception as fault:  # it asserts, and the environment may raise anything
            yield Finding("problem", f"Gymnasium's checker: {_first_line(fault)}")
    gymnasium.logger.min_level = level
    texts = {_first_line(complaint.message) for complaint in complaints}
    for text in sorted(texts):
        yield Finding("note", f"Gymnasium's checker: {text}")


def _first_line(message: object) -> str:
    lines = str(message).strip().splitlines()
    plain = (lines[0] if lines else type(message).__name__).replace("\x1b[33m", "").replace("\x1b[0m", "")
    return plain.removeprefix("WARN: ")[:300]


def _ours(channel: Any, environment: "gymnasium.Env[Any, Any]", spaces: Spaces) -> Iterator[Finding]:
    """What matters to training here."""
    channel.tell(trying="playing episodes")
    started = time.perf_counter()
    episodes = [_play(environment, spaces, reset_seed(0, 0, episode)) for episode in range(EPISODES)]
    steps = sum(len(episode.rewards) for episode in episodes)
    speed = steps / (time.perf_counter() - started)
    yield from _form(environment, episodes)
    yield from _masks(environment, [mask for episode in episodes for mask in episode.masks])
    if speed < SLOW_STEPS_PER_SECOND:
        yield Finding("note", f"{speed:.0f} steps a second in one process: training will take its time")
    else:
        yield Finding("ok", f"{speed:.0f} steps a second in one process")

    channel.tell(trying="playing an episode again from its seed")
    again = _play(environment, spaces, reset_seed(0, 0, 0))
    if _same(episodes[0], again):
        yield Finding("ok", "an episode depends on its seed and actions only: runs resume exactly")
    else:
        yield Finding(
            "problem",
            "the same seed and actions gave another episode the second time: an interrupted run will not resume "
            "exactly (draw all randomness from self.np_random, and let reset() forget everything)",
        )


def _play(environment: "gymnasium.Env[Any, Any]", spaces: Spaces, seed: int) -> Episode:
    """An episode of random actions, the same for the same seed."""
    actions, mask_method = np.random.default_rng(seed), masks.method_of(environment)
    try:
        observation, info = environment.reset(seed=seed)
        episode = Episode([_flat(spaces, observation, "reset()")], [], False, False, [])
        while not (episode.terminated or episode.truncated) and len(episode.rewards) < LONGEST:
            where = f"step {len(episode.rewards)}" if episode.rewards else "reset()"
            episode.masks.append(_mask(spaces, masks.told(info, mask_method), where))
            legal = np.arange(spaces.actions) if episode.masks[-1] is None else np.flatnonzero(episode.masks[-1])
            action = spaces.first_action + int(legal[actions.integers(len(legal))])
            observation, reward, terminated, truncated, info = environment.step(action)
            episode.observations.append(_flat(spaces, observation, f"step {len(episode.rewards) + 1}"))
            episode.rewards.append(float(reward))
            episode = episode._replace(terminated=bool(terminated), truncated=bool(truncated))
    except Broken:
        raise
    except Exception as fault:  # the environment's own code may raise anything
        raise Broken(f"playing it raised {type(fault).__name__}: {_first_line(fault)}") from fault
    return episode


def _flat(spaces: Spaces, observation: Any, where: str) -> Any:
    try:
        return flatten(spaces.observation, observation).copy()
    except FormError as fault:
        raise Broken(f"the observation of {where} {fault}") from None


def _mask(spaces: Spaces, mask: Any, where: str) -> Any:
    """A mask as booleans [action]; None where there is none."""
    if mask is None:
        return None
    try:
        legal = masks.checked(mask, spaces.actions)
    except FormError as fault:
        raise Broken(f"the {masks.KEY} of {where} {fault}") from None
    if not legal.any():
        raise Broken(f"the {masks.KEY} of {where} {NO_LEGAL_ACTION}")
    return legal


def _masks(environment: "gymnasium.Env[Any, Any]", found: list[Any]) -> Iterator[Finding]:
    """What is told of legal actions."""
    told = [mask for mask in found if mask is not None]
    if not told:
        return
    if len(told) < len(found):
        missing = len(found) - len(told)
        yield Finding(
            "problem", f"the {masks.KEY} of {missing} of {len(found)} states is missing: training stops there"
        )
        return
    counts = [int(mask.sum()) for mask in told]
    way = f"{masks.METHOD}()" if masks.method_of(environment) is not None else f'info["{masks.KEY}"]'
    yield Finding(
        "ok",
        f"{way} tells legal actions, {min(counts)} to {max(counts)} of {len(told[0])}: training takes no others "
        "(action_masks=false takes any)",
    )


def _same(one: Episode, other: Episode) -> bool:
    return (
        len(one.rewards) == len(other.rewards)
        and np.array_equal(one.rewards, other.rewards)
        and np.array_equal(one.observations, other.observations)
    )


def _form(environment: "gymnasium.Env[Any, Any]", episodes: list[Episode]) -> Iterator[Finding]:
    observations = np.concatenate([np.stack(episode.observations) for episode in episodes])
    rewards = np.concatenate([episode.rewards for episode in episodes])
    lengths = [len(episode.rewards) for episode in episodes]
    if not np.isfinite(observations).all():
        yield Finding("problem", "observations hold NaN or infinity: training stops where that happens")
    elif np.abs(observations).max() > LARGE_OBSERVATION:
        yield Finding(
            "note",
            f"observations reach {np.abs(observations).max():.3g}: networks learn better from numbers near 1 "
            "(normalize_observations=true)",
        )
    if not np.isfinite(rewards).all():
        yield Finding("problem", "rewards are NaN or infinite: training stops where that happens")
    elif np.abs(rewards).max() > LARGE_REWARD:
        yield Finding("note", f"rewards reach {np.abs(rewards).max():.3g}: trials may diverge; scale them down")
    ended = [episode.terminated or episode.truncated for episode in episodes]
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    if limit is None:
        yield Finding("note", "it has no time limit of its own: 1000 steps unless --max-episode-steps says otherwise")
    if all(ended):
        yield Finding("ok", f"{len(episodes)} episodes of random actions, {min(lengths)} to {max(lengths)} steps")
    else:
        yield Finding("note", f"random actions do not end an episode within {LONGEST} steps: a time limit will")

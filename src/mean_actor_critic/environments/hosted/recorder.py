"""Recording an agent at play as a video. Runs in a worker process."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.environments.hosted import masks
from mean_actor_critic.environments.hosted.factory import FactoryError

Frame = np.ndarray[Any, Any]


def record(
    channel: Any,
    name: str,
    factory: Callable[..., Any],
    predict: Callable[[Any, Any], Any],
    seeds: Sequence[int],
    max_episode_steps: int,
    file: str,
) -> None:
    """Play an episode for each of `seeds` and write all frames to one file; tell the returns and the frames.

    `predict` is given an observation and, where the environment tells, its mask of legal actions.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame's: without a display it would complain of that
    try:
        environment = _rendering(factory)
    except FactoryError as fault:
        return channel.tell(refused=f"{name}: {fault}")
    returns: list[float] = []
    frames = _frames(channel, environment, predict, seeds, max_episode_steps, returns)
    fps = environment.metadata.get("render_fps") or 30
    count = _write(Path(file), frames, fps)
    environment.close()
    return channel.tell(returns=returns, frames=count, fps=fps)


def _rendering(factory: Callable[..., Any]) -> Any:
    """An environment that renders to arrays, asked to do so if it takes the question."""
    try:
        environment = factory(render_mode="rgb_array")
    except FactoryError as fault:
        if "render_mode" not in str(fault):
            raise
        environment = factory()
    if environment.render_mode != "rgb_array":
        raise FactoryError('it cannot be watched: it does not render with render_mode="rgb_array"')
    return environment


def _frames(
    channel: Any,
    environment: Any,
    predict: Callable[[Any, Any], Any],
    seeds: Sequence[int],
    max_episode_steps: int,
    returns: list[float],
) -> Iterator[Frame]:
    """The picture before the first step and after every step of each episode; appends to `returns`."""
    mask_method = masks.method_of(environment)
    for episode, seed in enumerate(seeds):
        channel.tell(trying=f"playing episode {episode + 1}")
        observation, info = environment.reset(seed=seed)
        yield _even(environment.render())
        total = 0.0
        for _ in range(max_episode_steps):
            action = predict(observation, masks.told(info, mask_method))
            observation, reward, terminated, truncated, info = environment.step(action)
            total += float(reward)
            yield _even(environment.render())
            if terminated or truncated:
                break
        returns.append(total)


def _even(frame: Any) -> Frame:
    """Cut to even sides, which video needs."""
    picture = np.asarray(frame, np.uint8)
    height, width = picture.shape[:2]
    return np.ascontiguousarray(picture[: height - height % 2, : width - width % 2])


def _write(file: Path, frames: Iterator[Frame], fps: float) -> int:
    import imageio_ffmpeg

    first = next(frames)
    writer = imageio_ffmpeg.write_frames(
        str(file), (first.shape[1], first.shape[0]), fps=fps, macro_block_size=2, codec="libx264", quality=7
    )
    writer.send(None)
    written = 0
    for frame in itertools.chain([first], frames):
        writer.send(frame)
        written += 1
    writer.close()
    return written

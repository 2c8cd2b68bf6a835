"""The settings as keyword arguments, for editors and type checkers. A test holds it against the settings themselves."""

from collections.abc import Sequence
from typing import TypedDict

Number = float | Sequence[float]  # for all trials, or one for each


class Settings(TypedDict, total=False):
    """Every setting of every learner and engine; which of them apply is said by `mac train --help`."""

    hidden: int | Sequence[int]
    activation: str
    optimizer: str
    normalize_observations: bool
    critic_target: str
    time_limit: str
    replay_capacity: int
    minibatches: int
    batch_size: int
    actor_lr: Number
    critic_lr: Number
    discount: Number
    baseline_decay: Number
    table: bool
    layer_norm: bool
    critics: int
    policy_step: str
    scale_rewards: bool
    novelty: bool
    sequences: int
    sequence_length: int
    updates_per_step: int
    warm_up: int
    settling_steps: Number
    release_steps: Number
    trace_decay: Number
    target_rate: Number
    temperature: Number
    uniform_pull: Number
    advantage_clip: Number
    novelty_weight: Number
    exploration: Number
    rollout_steps: int
    clip_rewards: bool
    schedule: str
    pipelined: bool
    learning_rate: Number
    policy_weight: Number
    entropy_weight: Number
    value_weight: Number
    gradient_norm: Number
    rms_decay: Number
    rms_epsilon: Number
    environments: int
    frame_skip: int
    max_pool: bool
    sticky_actions: float
    noop_max: int
    fire_reset: bool
    episodic_life: bool
    screen_size: int
    grey: bool
    stack: int
    all_actions: bool
    max_episode_frames: int
    evaluation_fire: bool
    evaluation_steps: int
    evaluation_environments: int
    evaluation_interval: int
    evaluation_episodes: int
    evaluation_greedy: bool
    action_masks: bool

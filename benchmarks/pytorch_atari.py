"""MAC on Atari as one would write it in PyTorch: same network, emulators and work, a forward pass whenever needed."""

import time

import numpy as np

from benchmarks.harness import Measurement

DISCOUNT, POLICY_WEIGHT, ENTROPY_WEIGHT, VALUE_WEIGHT, NORM = 0.99, 0.1, 0.001, 0.5, 0.5


def train(game: str, environments: int, rollout_steps: int, warm_up: float, seconds: float) -> Measurement:
    """Agent steps in some seconds, after a warm-up; channels last, all cores."""
    import torch
    from ale_py.vector_env import AtariVectorEnv
    from torch import nn

    torch.manual_seed(0)
    emulators = AtariVectorEnv(game, environments, reward_clipping=False)
    observation, _ = emulators.reset(seed=0)
    actions = emulators.single_action_space.n
    trunk = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    policy_head, critic_head = nn.Linear(512, actions), nn.Linear(512, actions)
    parameters = [*trunk.parameters(), *policy_head.parameters(), *critic_head.parameters()]
    optimizer = torch.optim.RMSprop(parameters, lr=1.5e-3, alpha=0.99, eps=1e-5)

    def forward(observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images = observation.float().div_(255).contiguous(memory_format=torch.channels_last)
        features = trunk(images)
        return policy_head(features), critic_head(features)

    resetting = np.zeros(environments, bool)

    def update(observation: np.ndarray) -> np.ndarray:
        """A rollout and what is learned from it; returns the observation after it."""
        nonlocal resetting
        seen, taken, rewards, valid, over, values = [], [], [], [], [], []
        for _ in range(rollout_steps):
            tensor = torch.from_numpy(observation)
            with torch.no_grad():
                logits, q = forward(tensor)
                action = torch.distributions.Categorical(logits=logits).sample()
            observation, reward, terminated, truncated, _ = emulators.step(action.numpy())
            seen.append(tensor)
            taken.append(action)
            values.append(q)
            rewards.append(torch.from_numpy(np.sign(reward).astype(np.float32)))
            valid.append(torch.from_numpy(~resetting))
            resetting = terminated | truncated
            over.append(torch.from_numpy(resetting))
        with torch.no_grad():
            logits, q = forward(torch.from_numpy(observation))
            following = (logits.softmax(-1) * q).sum(-1)
        returns = []
        for reward, ended in zip(reversed(rewards), reversed(over), strict=True):
            following = reward + DISCOUNT * torch.where(ended, 0.0, following)
            returns.append(following)
        target, action = torch.cat(returns[::-1]), torch.cat(taken)
        weight = torch.cat(valid).float()
        weight = weight / weight.sum().clamp(min=1)
        logits, q = forward(torch.cat(seen))
        log_policy = logits.log_softmax(-1)
        policy = log_policy.exp()
        policy_loss = -(weight * (policy * torch.cat(values)).sum(-1)).sum()
        entropy = -(weight * (policy * log_policy).sum(-1)).sum()
        error = q.gather(1, action[:, None])[:, 0] - target
        value_loss = (weight * error**2 / 2).sum()
        optimizer.zero_grad(set_to_none=True)
        (POLICY_WEIGHT * policy_loss - ENTROPY_WEIGHT * entropy + VALUE_WEIGHT * value_loss).backward()
        nn.utils.clip_grad_norm_(parameters, NORM)
        optimizer.step()
        return observation

    until = time.perf_counter() + warm_up
    while time.perf_counter() < until:
        observation = update(observation)
    started, updates = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        observation = update(observation)
        updates += 1
    return {"steps": updates * environments * rollout_steps, "seconds": time.perf_counter() - started}

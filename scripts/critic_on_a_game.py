"""What a critic of an Atari agent knows: `python scripts/critic_on_a_game.py RUN_OR_AGENT ... [--turns N]`.

Plays with the policy under the rules of training, where rewards are clipped and a life is an episode, and compares what
the critic says with what came. A critic can know very well how much is to come and not at all what the action has to do
with it: then there is nothing for a policy to learn from. Seconds per run on one core.
"""

import argparse
import functools
from pathlib import Path

import jax
import numpy as np

from mean_actor_critic import Agent, Run
from mean_actor_critic.environments.atari import Emulators, find_game
from mean_actor_critic.environments.seeds import emulator_seed
from mean_actor_critic.learning.kernels import XLA
from mean_actor_critic.learning.networks import game_outputs, inverse_cdf, softmax

SEED = 1_000_000  # no training's
TAIL = 100  # turns at the end whose return is not yet known well


def measure(agent: Agent, turns: int) -> dict[str, float]:
    """Play `turns` steps in each of 16 environments, and say what the critic made of them."""
    experiment = agent.experiment
    setup, rules, discount = experiment.setup, experiment.rules, float(experiment.hyper_of(agent.trial).discount)
    game = find_game(experiment.environment, rules)
    seeds = functools.partial(emulator_seed, SEED, 0)
    emulators = Emulators(rules, game.rom, rules.environments, seeds, training=True)
    forward = jax.jit(lambda network, seen: game_outputs(network, seen, XLA.forward))
    random = np.random.default_rng(SEED)
    observation = emulators.begin()
    played = []
    for _ in range(turns):
        outputs = forward(agent.networks.network, observation)
        policy, values = np.asarray(softmax(outputs.logits)), np.asarray(outputs.values)
        emulators.send(inverse_cdf(policy, random.random(len(policy), np.float32)).astype(np.int32))
        turn = emulators.receive()
        observation = turn.next_observation
        reward = np.sign(turn.reward) if setup.clip_rewards else turn.reward
        played.append((policy, values, reward, turn.terminated | turn.truncated))
    policy, values, reward, over = (np.stack(part) for part in zip(*played, strict=True))
    value = (policy * values).sum(-1)
    to_come, returns = value[-1], np.zeros_like(value)
    for t in reversed(range(turns)):
        to_come = reward[t] + discount * to_come * ~over[t]
        returns[t] = to_come
    known = slice(0, turns - TAIL)
    return {
        "V(s) and return: correlation": np.corrcoef(value[known].ravel(), returns[known].ravel())[0, 1],
        "V(s): SD over states": value.std(),
        "Q(s, a): SD over actions": values.std(-1).mean(),
        "policy: entropy": -(policy * np.log(policy)).sum(-1).mean(),
        "policy: SD over states": policy.std((0, 1)).mean(),
        "reward per step": reward.mean(),
    }


def main() -> None:
    """Measure the agents that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs="+", type=Path, metavar="RUN_OR_AGENT")
    parser.add_argument("--turns", type=int, default=1000)
    options = parser.parse_args()
    if options.turns < 2 * TAIL:
        parser.error(f"--turns: at least {2 * TAIL}")
    for path in options.agents:
        run = Run.load(path) if path.is_dir() else None
        print(path, f"at {run.steps_done[0]:,} steps" if run else "")
        for name, number in measure(run.agent() if run else Agent.load(path), options.turns).items():
            print(f"  {name:30} {number:8.4f}")


if __name__ == "__main__":
    main()

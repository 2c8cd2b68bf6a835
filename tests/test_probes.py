"""Every algorithm solves every probe environment, whose answers are known."""

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import EPISODIC
from mean_actor_critic.learning.networks import mlp
from mean_actor_critic.spec.algorithms import ALGORITHMS
from probes import ConstantReward, Delay, EndlessReward, RewardFromAction, RewardFromObservation, TwoStepCredit

START = np.array([1.0, 0.0, 0.0], np.float32)
TRIALS = 4
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in EPISODIC if name != "mac"]
ALL = pytest.mark.parametrize("algorithm", ["mac", *SLOW])
WITH_CRITIC = [name for name in EPISODIC if "critic" in ALGORITHMS[name].parts]


def agents(tmp_path, environment, algorithm, discount=0.9, episodes=400, **settings):
    settings = {"hidden": (16,), "activation": "tanh", "actor_lr": 0.02, "max_episode_steps": 10, **settings}
    if algorithm in WITH_CRITIC:
        settings = {"critic_lr": 0.02, "minibatches": 4, "batch_size": 16, "replay_capacity": 500, **settings}
    run = mac.train(
        environment, algorithm, trials=TRIALS, episodes=episodes, out=tmp_path / "run", discount=discount, **settings
    )
    return run, [run.agent(trial) for trial in range(TRIALS)]


def values(agent, observation):
    return mlp(agent.critic, np.asarray(observation, np.float32), agent.experiment.setup.activation)


def probability_of_1(agent, observation):
    return agent.action_probabilities(np.asarray(observation, np.float32))[1]


@ALL
def test_constant_reward_is_valued_as_it_is(tmp_path, algorithm):
    run, players = agents(tmp_path, ConstantReward(), algorithm)
    assert np.all(run.returns == 1)
    assert np.all(run.lengths == 1)
    if algorithm in WITH_CRITIC:
        for agent in players:
            taken_often = np.argmax(agent.action_probabilities(START))
            assert values(agent, START)[taken_often] == pytest.approx(1, abs=0.05)


@ALL
def test_reward_from_the_observation_is_told_apart(tmp_path, algorithm):
    run, players = agents(tmp_path, RewardFromObservation(), algorithm)
    assert set(np.unique(run.returns)) == {-1.0, 1.0}
    if algorithm in WITH_CRITIC:
        for agent in players:
            for seen in (-1.0, 1.0):
                observation = [seen, 0, 0]
                taken_often = np.argmax(agent.action_probabilities(observation))
                assert values(agent, observation)[taken_often] == pytest.approx(seen, abs=0.1)


@ALL
def test_reward_from_the_action_makes_the_policy(tmp_path, algorithm):
    _, players = agents(tmp_path, RewardFromAction(), algorithm)
    for agent in players:
        assert probability_of_1(agent, [1, 0, 0]) > 0.9
        assert probability_of_1(agent, [-1, 0, 0]) < 0.1


@ALL
def test_credit_reaches_back_two_steps(tmp_path, algorithm):
    _, players = agents(tmp_path, TwoStepCredit(), algorithm)
    for agent in players:
        assert probability_of_1(agent, START) > 0.9
        if algorithm in WITH_CRITIC:
            assert values(agent, START)[1] == pytest.approx(0.9, abs=0.15)


@ALL
def test_discount_decides_between_soon_and_more(tmp_path, algorithm):
    discount = (0.25, 0.25, 0.95, 0.95)  # waiting is worth -0.5 or 0.9, not waiting 0
    _, players = agents(tmp_path, Delay(), algorithm, discount=discount, episodes=800)
    chosen = [probability_of_1(agent, START) for agent in players]
    assert max(chosen[:2]) < 0.1, chosen
    assert min(chosen[2:]) > 0.9, chosen


@pytest.mark.slow
@pytest.mark.parametrize("critic_target", ["expected_sarsa", "monte_carlo"])
@pytest.mark.parametrize(("time_limit", "worth"), [("bootstrap", 2.0), ("terminal", None)])
def test_a_time_limit_is_an_end_only_if_asked(tmp_path, critic_target, time_limit, worth):
    # a step pays 1 for ever at discount 0.5: worth 2; where the limit of 3 steps is an end, less
    run, players = agents(
        tmp_path, EndlessReward(), "mac", discount=0.5, max_episode_steps=3, time_limit=time_limit,
        critic_target=critic_target,
    )  # fmt: skip
    assert np.all(run.lengths == 3)
    found = np.array([values(agent, START).max() for agent in players])
    if worth is None:
        assert np.all(found < 1.8), found
    else:
        assert found == pytest.approx(worth, abs=0.1)

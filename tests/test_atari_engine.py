"""What the Atari engine joins: an action with its screen and its reward, and the games that an evaluation counts."""

import jax
import numpy as np
import pytest
from gymnasium import spaces

from mean_actor_critic.engines import vector as atari
from mean_actor_critic.environments.atari import Game
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.environments.stepped import Turn
from mean_actor_critic.learning.networks import game_layer_shapes, game_outputs, initial_game_network
from mean_actor_critic.learning.rollout import value
from mean_actor_critic.spec.experiment import make_experiment

GAME, ACTIONS, ENVIRONMENTS, SIDE = "ALE/Pong-v5", 3, 2, 36
SMALL = {"screen_size": SIDE, "stack": 1, "environments": ENVIRONMENTS}
NEW_SEED = 50  # added to the number on screens of games that began with a new seed


def screens(number):
    """Screens that show a number, and the number of the environment."""
    shown = number * ENVIRONMENTS + np.arange(ENVIRONMENTS)
    return np.broadcast_to(shown[:, None, None, None], (ENVIRONMENTS, 1, SIDE, SIDE)).astype(np.uint8)


class Clock:
    """Emulators whose screens show the time; what was sent and what came of it is written down."""

    def __init__(self):
        self.sent, self.turns = [], []

    def begin(self):
        return screens(0)

    def send(self, action):
        self.sent.append(action.copy())

    def receive(self):
        time = len(self.sent)
        over, reset = np.array([time % 4 == 3, False]), np.array([False, time % 5 == 0])
        cut = np.array([False, time % 5 == 4])
        ended = over | cut
        after = np.where(ended[:, None, None, None], screens(time + NEW_SEED), screens(time))
        reward = np.float32([time, -time])
        turn = Turn(screens(time), after, reward, over, cut, ~reset, np.where(ended, reward, np.nan))
        self.turns.append(turn)
        return turn


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("time_limit", ["terminal", "bootstrap"])
def test_a_trial_learns_from_the_screen_that_an_action_was_decided_on_and_the_reward_that_it_brought(
    monkeypatch, steps, pipelined, time_limit
):
    clock, learned = Clock(), []

    def learn(hyper, state, batch, context):
        assert context.updates == experiment.updates
        learned.append((batch, [outputs.observation for outputs in batch.acted.steps], batch.acted.after))
        return state._replace(update=state.update + 1)

    monkeypatch.setattr(atari, "Emulators", lambda *_, **__: clock)
    monkeypatch.setattr(atari, "learning_program", lambda setup: learn)
    settings = {**SMALL, "rollout_steps": steps, "pipelined": pipelined, "time_limit": time_limit}
    experiment = make_experiment(GAME, "mac", 1, 600, 0, settings, engine="atari")
    game = Game(GAME, "", Spaces(spaces.Box(0, 255, (1, SIDE, SIDE), np.uint8), spaces.Discrete(ACTIONS)))
    trial = atari.Trial(experiment, 0, game)
    network = trial.state.network
    updates = 12 // steps
    for _ in range(updates * steps):
        trial.turn()
    assert len(learned) == updates
    bootstrapped_ends = 0
    decided_on = [clock.begin(), *(turn.next_observation for turn in clock.turns)]
    for number, (batch, seen, after) in enumerate(learned):
        for step in range(steps):
            time = number * steps + step
            turn = clock.turns[time]
            np.testing.assert_array_equal(seen[step], decided_on[time])
            np.testing.assert_array_equal(batch.action[step], clock.sent[time])
            np.testing.assert_array_equal(batch.reward[step], turn.reward)
            np.testing.assert_array_equal(batch.terminated[step], turn.terminated)
            np.testing.assert_array_equal(batch.truncated[step], turn.truncated)
            # of the last screen of what was cut off, not of the first one of the next game
            beyond = value(experiment.setup, game_outputs(network, turn.observation))
            counts = turn.truncated & (time_limit == "bootstrap")
            np.testing.assert_allclose(batch.value_beyond[step], np.where(counts, beyond, 0), rtol=1e-4, atol=1e-6)
            bootstrapped_ends += np.abs(batch.value_beyond[step][1]) > 1e-3
            np.testing.assert_array_equal(batch.valid[step], turn.valid)
        last = clock.turns[number * steps + steps - 1]
        # what an ended episode bootstraps from is not looked at: the end cuts it off
        bootstrapped, goes_on = after.observation if pipelined else after, ~(last.terminated | last.truncated)
        np.testing.assert_array_equal(np.asarray(bootstrapped)[goes_on], last.observation[goes_on])
    assert len({tuple(action) for action in clock.sent}) > 1
    assert bootstrapped_ends == (2 if time_limit == "bootstrap" else 0)


class Lengths:
    """Emulators whose games have given lengths, batch after batch, and a reward of 1 a step."""

    environments = ENVIRONMENTS

    def __init__(self, *batches):
        self._batches = list(batches)

    def begin(self):
        self._left = np.array(self._batches.pop(0))
        self._score = np.zeros(ENVIRONMENTS)
        return screens(0)

    begin_anew = begin

    def send(self, action):
        self._left -= 1
        self._score += 1

    def receive(self):
        over = self._left == 0
        turn = Turn(screens(1), screens(1), np.ones(2, np.float32), over, over & False, over | True,
                    np.where(over, self._score, np.nan).astype(np.float32))  # fmt: skip
        self._left[over] = 1  # games that nobody waits for
        return turn


@pytest.mark.parametrize(
    ("batches", "scores", "unfinished", "steps"),
    [
        ([(3, 5), (4, 4), (2, 1)], [3, 5, 4, 4, 2, 1], 0, 11),  # as many games as were wanted
        ([(3, 5), (4, 4), (2, 99)], [3, 5, 4, 4, 2, 10], 1, 19),  # a batch goes on after the steps, but not for ever
        ([(3, 9), (7, 8)], [3, 9, 7, 8], 0, 17),  # the steps are used up
        ([(50, 60)], [10, 10], 2, 10),
    ],
)
def test_an_evaluation_counts_every_batch_that_it_begins(batches, scores, unfinished, steps):
    network = initial_game_network(jax.random.key(0), game_layer_shapes((1, SIDE, SIDE), ACTIONS, ACTIONS))
    even = network._replace(policy=jax.tree.map(np.zeros_like, network.policy))
    experiment = make_experiment(GAME, "mac", 1, 600, 0, SMALL, engine="atari")
    evaluation = atari.Evaluation(experiment, Lengths(*batches), even, 0, 0, 0, games=5, steps=10)
    while not evaluation.finished:
        evaluation.turn()
    assert evaluation.scores.tolist() == scores
    assert (evaluation.unfinished, evaluation.step) == (unfinished, steps)
    assert evaluation.entropy == pytest.approx(np.log(ACTIONS), rel=1e-6)

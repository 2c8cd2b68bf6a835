"""ALE's vector environment as we use it, against Gymnasium's own path and against itself."""

import functools
import warnings

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from mean_actor_critic.environments import atari
from mean_actor_critic.environments.seeds import emulator_seed
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.spec.rules import GameRules

pytestmark = pytest.mark.slow

SEEDS = functools.partial(emulator_seed, 0, 0)


def emulators_of(game, environments, *, training=True, threads=0, seeds=SEEDS, **settings):
    rules = GameRules(**settings)
    return atari.Emulators(rules, atari.find_game(f"ALE/{game}-v5", rules).rom, environments, seeds, training, threads)


def actions_of(game, steps, environments, seed=0):
    actions = atari.find_game(f"ALE/{game}-v5", GameRules()).spaces.actions
    return np.random.default_rng(seed).integers(actions, size=(steps, environments)).astype(np.int32)


@pytest.mark.parametrize(
    ("game", "grey", "training"),
    [
        ("Pong", True, False),
        ("Breakout", True, False),
        ("Breakout", True, True),
        ("SpaceInvaders", True, True),
        ("Pong", False, False),
    ],
)
def test_observations_rewards_and_ends_are_those_of_gymnasium_s_wrappers(game, grey, training):
    """The same ROM and actions through one environment, wrapper by wrapper. Random starts have their own test.

    Lives are read off the emulator: with `terminal_on_life_loss` the wrapper leaves a step in the middle of it.
    """
    gymnasium.register_envs(ale_py)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
        wrapped = AtariPreprocessing(single, noop_max=0, frame_skip=4, screen_size=84, grayscale_obs=grey)
        other = FrameStackObservation(wrapped, 4, padding_type="zero")
    ours = emulators_of(game, 1, training=training, noop_max=0, fire_reset=False, grey=grey)
    expected, _ = other.reset(seed=0)
    seen = ours.begin()
    np.testing.assert_allclose(seen[0].astype(int), expected.astype(int), atol=1)
    ends = lost = total = 0
    lives = single.unwrapped.ale.lives()
    for action in actions_of(game, 400, 1):
        ours.send(action)
        turn = ours.receive()
        expected, reward, terminated, truncated, info = other.step(int(action[0]))
        life_lost, lives = training and info["lives"] < lives and not terminated, info["lives"]
        ended = terminated or life_lost
        assert (turn.reward[0], turn.terminated[0], turn.truncated[0]) == (reward, ended, truncated)
        assert turn.valid[0]
        lost += life_lost
        total += abs(reward)
        if terminated:  # the last screen of a game differs: ALE keeps that of a frame before
            ends += 1
            ours.send(action)
            turn = ours.receive()
            assert not turn.valid[0]
            expected, info = other.reset()
            lives = info["lives"]
        np.testing.assert_allclose(turn.observation[0].astype(int), expected.astype(int), atol=1)
    assert total > 0
    assert ends > 0 or game != "Breakout"
    assert (lost > 0) == training


def first_frame(emulators, seed):
    """The frame of the emulator's game at which the agent's first decision comes."""
    return int(emulators._vector.reset(seed=seed)[1]["episode_frame_number"][0])


def test_a_game_begins_with_fire_and_fewer_than_so_many_idle_frames():
    emulators = emulators_of("Breakout", 1)
    frames = {first_frame(emulators, seed) for seed in range(6)}
    assert len(frames) > 2
    assert 1 <= min(frames) <= max(frames) <= 30
    assert first_frame(emulators_of("Breakout", 1, noop_max=0, fire_reset=False), 3) == 0


def trajectory(emulators, actions):
    """All that is seen and told along the way."""
    steps = [emulators.begin()]
    for action in actions:
        emulators.send(action)
        steps += list(emulators.receive())
    return steps


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_one_thread_and_two_play_the_same(sticky):
    actions = actions_of("Breakout", 120, 3)
    one, two = (
        trajectory(emulators_of("Breakout", 3, threads=n, screen_size=36, sticky_actions=sticky), actions)
        for n in (1, 2)
    )
    assert_same(one, two)


def test_a_lost_life_ends_the_episode_but_not_the_game():
    emulators = emulators_of("Breakout", 1, screen_size=36)
    observation = emulators.begin()
    assert observation.shape == (1, 4, 36, 36)
    lives, lost, scores = 5, 0, []
    fired = False
    for action in actions_of("Breakout", 900, 1, seed=1):
        emulators.send(action)
        turn = emulators.receive()
        assert turn.valid[0] == (not fired)  # the step that fires for the new life, or resets the game, is not ours
        if fired == "life":
            assert emulators._journal[0, emulators._length[0] - 1] == 1  # FIRE, whatever was asked for
        scores += turn.score[~np.isnan(turn.score)].tolist()
        fired = False
        if turn.terminated[0]:
            over = not np.isnan(turn.score[0])
            fired = "game" if over else "life"
            lost += not over
            lives = 5 if over else lives - 1
            assert emulators._lives[0] == (0 if over else lives)
    assert lost >= 4
    assert len(scores) >= 1
    assert all(score >= 0 for score in scores)


def test_in_evaluations_only_the_game_s_end_is_an_end():
    emulators = emulators_of("Breakout", 1, training=False, screen_size=36)
    emulators.begin()
    for action in actions_of("Breakout", 400, 1, seed=1):
        emulators.send(action)
        turn = emulators.receive()
        assert turn.terminated[0] == (not np.isnan(turn.score[0]))


@pytest.mark.parametrize("fire", [False, True])
def test_an_idle_agent_gets_on_only_if_somebody_presses_fire(fire):
    """Evaluations are whole games either way; FIRE for a new life is not the agent's step."""
    emulators = emulators_of("Breakout", 1, training=False, screen_size=36, evaluation_fire=fire)
    emulators.begin()
    turns = []
    for _ in range(200):
        emulators.send(np.zeros(1, np.int32))
        turns.append(emulators.receive())
    over = [turn.terminated[0] for turn in turns]
    assert over == [not np.isnan(turn.score[0]) for turn in turns]
    assert any(over) == fire
    first = turns[: over.index(True)] if fire else turns
    assert sum(not turn.valid[0] for turn in first) == (4 if fire else 0)  # five lives, four of them new


def test_a_cut_off_game_is_truncated_not_terminated():
    emulators = emulators_of("Pong", 2, screen_size=36, max_episode_frames=40)
    emulators.begin()
    cut = []
    for action in actions_of("Pong", 22, 2):
        emulators.send(action)
        turn = emulators.receive()
        assert not turn.terminated.any()
        cut.append(turn.truncated.all())
        assert turn.valid.all() == (len(cut) % 11 != 0)  # every eleventh step resets
    assert np.flatnonzero(cut).tolist() == [9, 20]


@pytest.mark.parametrize(("game", "longest"), [("Breakout", 60), ("Pong", 10**4), ("Seaquest", 100)])
def test_emulators_come_back_to_where_they_were(monkeypatch, game, longest):
    monkeypatch.setattr(atari, "LONGEST_JOURNAL", longest)
    actions = actions_of(game, 330, 3, seed=2)
    settings = {"screen_size": 36, "sticky_actions": 0.25}
    first = emulators_of(game, 3, **settings)
    seen = first.begin()
    for action in actions[:300]:
        first.send(action)
        seen = first.receive().next_observation
    first.send(actions[300])  # under way when the record is taken, and so not part of it
    record, digest = first.record(), atari.digest_of(seen)
    first.receive()
    assert (record["length"].max() < 300) == (game == "Breakout")
    second = emulators_of(game, 3, threads=1, **settings)
    np.testing.assert_array_equal(second.restore(record, digest), seen)
    second.send(actions[300])
    second.receive()
    for action in actions[301:]:
        first.send(action)
        second.send(action)
        assert_same(first.receive(), second.receive())
    for name, array in first.record().items():
        np.testing.assert_array_equal(second.record()[name], array)


def test_a_record_that_leads_elsewhere_is_refused():
    emulators = emulators_of("Pong", 2, screen_size=36)
    seen = emulators.begin()
    for action in actions_of("Pong", 60, 2):
        emulators.send(action)
        seen = emulators.receive().next_observation
    record = emulators.record()
    altered = {**record, "actions": 5 - record["actions"]}
    with pytest.raises(DamagedFileError, match="another screen"):
        emulators_of("Pong", 2, screen_size=36).restore(altered, atari.digest_of(seen))
    with pytest.raises(DamagedFileError, match="do not fit"):
        emulators_of("Pong", 2, screen_size=36).restore(
            {**record, "length": record["length"] + 1}, atari.digest_of(seen)
        )


def test_all_six_games_of_the_paper_are_there():
    from mean_actor_critic.spec.paper import ATARI

    assert {game.environment for game in ATARI.values()} <= set(atari.games())
    assert len(ATARI) == 6


def test_a_game_is_one_that_ale_can_play():
    assert atari.games()["ALE/SpaceInvaders-v5"] == "space_invaders"
    for rom in atari.games().values():
        assert ale_py.ALEInterface.isSupportedROM(ale_py.roms.get_rom_path(rom)), rom

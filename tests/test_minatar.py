"""MinAtar's games as JAX programs go on as the package's do: from its states, with its actions and its random draws."""

import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import message_of
from mean_actor_critic.environments.catalogue import COMPILED, check, watchable
from mean_actor_critic.environments.compiled.minatar import asterix, breakout, freeway, seaquest, space_invaders
from mean_actor_critic.environments.compiled.minatar.game import FIRE, STICKY, UP
from mean_actor_critic.environments.hosted.factory import place_of
from mean_actor_critic.environments.programs import MINATAR, PROGRAMS
from mean_actor_critic.spec.experiment import make_experiment

GAMES = {
    "asterix": asterix.Asterix,
    "breakout": breakout.Breakout,
    "freeway": freeway.Freeway,
    "seaquest": seaquest.Seaquest,
    "space_invaders": space_invaders.SpaceInvaders,
}
IDS = [name for name in PROGRAMS if name.startswith(MINATAR)]
STEPS = 6000
of_all_games = pytest.mark.parametrize("name", GAMES)


@pytest.fixture(scope="module")
def package():
    return pytest.importorskip(
        "minatar", reason="MinAtar's package, a judge here, is not installed (GPL; extra: bench)"
    )


# --- the package's states as ours ------------------------------------------------------------------------------------


def numbers(*values):
    return [np.int32(value) for value in values]


def ends(game, reward=0.0):
    return {"last": np.int32(0), "reward": np.float32(reward), "over": np.bool_(game.terminal)}


def of_asterix(game):
    rows = [row or (0, 0, False, False) for row in game.entities]
    things = asterix.Things(
        np.int32([row[0] for row in rows]),
        np.array([bool(row[2]) for row in rows]),
        np.array([bool(row[3]) for row in rows]),
        np.array([row is not None for row in game.entities]),
    )
    return asterix.State(
        *numbers(game.player_y, game.player_x), things,
        *numbers(game.spawn_timer, game.spawn_speed, game.move_timer, game.move_speed, game.ramp_timer,
                 game.ramp_index),
        **ends(game),
    )  # fmt: skip


def of_breakout(game):
    towards = [(-1, -1), (-1, 1), (1, 1), (1, -1)][game.ball_dir]
    return breakout.State(
        np.int32([game.ball_y, game.ball_x]), np.int32([game.last_y, game.last_x]), np.int32(towards),
        np.int32(game.pos), game.brick_map.astype(bool), np.bool_(game.strike), **ends(game),
    )  # fmt: skip


def of_freeway(game):
    cars = np.int32(game.cars)
    return freeway.State(
        *numbers(game.pos, game.move_timer), cars[:, 0], cars[:, 2], cars[:, 3], np.int32(game.terminate_timer),
        **ends(game),
    )  # fmt: skip


def of_space_invaders(game):
    return space_invaders.State(
        np.int32(game.pos), game.alien_map.astype(bool), np.bool_(game.alien_dir > 0), game.f_bullet_map.astype(bool),
        game.e_bullet_map.astype(bool),
        *numbers(game.shot_timer, game.alien_shot_timer, game.alien_move_timer, game.enemy_move_interval),
        **ends(game),
    )  # fmt: skip


def swimmers(rows, room, first=0):
    """Rows of column, row, direction and, of some, a timer."""
    assert len(rows) <= room, rows
    table = np.zeros((room, 4), np.int32)
    for place, row in enumerate(rows):
        table[place + first] = [*row[:3], *(row[3:4] or [0])]
    present = np.isin(np.arange(room), np.arange(len(rows)) + first)
    return seaquest.Swimmers(table[:, 0], table[:, 1], table[:, 2] > 0, table[:, 3], present)


def of_seaquest(game):
    room = seaquest.ENEMIES
    both = [*game.e_fish, *game.e_subs]
    rest = [0] * (room - len(both))
    enemies = seaquest.Enemies(
        swimmers(both, room),
        np.array([len(row) > 4 for row in both] + [False] * len(rest)),
        np.int32([row[4] if len(row) > 4 else 0 for row in both] + rest),
        np.int32([*range(len(game.e_fish)), *range(len(game.e_subs)), *rest]),
    )
    bombs = np.zeros((2, 10, 10), bool)
    for column, row, rightward in game.e_bullets:
        bombs[int(rightward), row, column] = True
    return seaquest.State(
        *numbers(game.sub_y, game.sub_x), np.bool_(game.sub_or), *numbers(game.oxygen, game.diver_count),
        np.bool_(game.surface), np.int32(game.shot_timer), swimmers(game.f_bullets, seaquest.SHOTS), bombs, enemies,
        swimmers(game.divers, 2, first=2 - len(game.divers)),
        *numbers(game.e_spawn_timer, game.e_spawn_speed, game.d_spawn_timer, game.move_speed, game.ramp_index, 1000),
        **ends(game),
    )  # fmt: skip


STATE_OF = {
    "asterix": of_asterix, "breakout": of_breakout, "freeway": of_freeway, "seaquest": of_seaquest,
    "space_invaders": of_space_invaders,
}  # fmt: skip


def plain(state):
    """A state without what does not matter: what is in empty places, and in which place things are."""
    known = state._asdict()
    for name in ("last", "reward", "clock"):
        known.pop(name, None)
    if isinstance(state, asterix.State):
        things = state.things
        known["things"] = [tuple(row) for row in zip(*things, strict=True) if row[-1]]
        known["lanes"] = things.present
    if isinstance(state, seaquest.State):
        for name in ("shots", "divers"):
            known[name] = [row[:-1] for row in zip(*known[name], strict=True) if row[-1]]
        if known["shots"]:
            known["shots"] = sorted(known["shots"])
        swim, hunter, shot_wait, born = known.pop("enemies")
        order = np.argsort(born, kind="stable")
        known["fish"] = [tuple(part[i] for part in swim[:-1]) for i in order if swim.present[i] and not hunter[i]]
        known["hunters"] = [
            (*(part[i] for part in swim[:-1]), shot_wait[i]) for i in order if swim.present[i] and hunter[i]
        ]
    return {name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in known.items()}  # fmt: skip


# --- the package's random draws as ours ------------------------------------------------------------------------------


class Listened:
    """A source of random numbers, and what it said."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.said = []

    def rand(self, *shape):
        self.said.append(np.copy(self.random.rand(*shape)))
        return self.as_given(self.said[-1])

    def randint(self, *arguments, **more):
        self.said.append(np.copy(self.random.randint(*arguments, **more)))
        return self.as_given(self.said[-1])

    @staticmethod
    def as_given(said):
        return np.copy(said) if said.ndim else said.item()


def chance_of(name, before, said):
    """What was drawn in a step, in our words; where nothing was drawn, what must not matter."""
    if name == "asterix":
        side, gold, *place = said or (0, 0)
        order = np.zeros(8, np.float32)
        if place:  # among the empty lanes
            order[np.flatnonzero(~before.things.present)[place[0]]] = 1
        return asterix.Chance(np.bool_(side < 1 / 2), np.bool_(gold < 1 / 3), order)
    if name == "freeway":
        paces, sides = said or (np.full(8, 4), np.ones(8))
        return np.int32(paces * np.where(sides > 1 / 2, 1, -1))
    if name == "seaquest":
        side, hunter, row = said[:3] if before.spawn_wait == 0 else (0, 0, 3)
        diver_side, diver_row = said[-2:] if before.diver_wait == 0 else (0, 3)
        sides = np.array([side < 1 / 2, diver_side < 1 / 2])
        return seaquest.Chance(sides, np.int32([row, diver_row]), np.bool_(hunter < 1 / 3))
    assert not said
    return ()


def disturb(name, game, random):
    """Another state that could be: later in a game, or nearer to something rare."""
    if name == "asterix":
        game.ramp_timer = int(random.integers(-1, 5))
        game.spawn_timer = min(game.spawn_timer, 2)
    elif name == "breakout":
        game.brick_map[:] *= random.random((10, 10)) < random.random()
        if random.random() < 0.3:
            game.brick_map[:] = 0
        game.pos = int(np.clip(game.ball_x + random.integers(-2, 3), 0, 9))
    elif name == "freeway":
        game.pos = int(random.integers(1, 10))
        game.terminate_timer = int(random.integers(0, 100))
    elif name == "space_invaders":
        game.alien_map[:] *= random.random((10, 10)) < random.random()
        if not game.alien_map.any():
            game.alien_map[random.integers(10), random.integers(10)] = 1
        if random.random() < 0.3:
            game.alien_map = np.roll(game.alien_map, int(random.integers(6)), axis=0)
    else:
        game.oxygen = int(random.choice([0, 1, 2, 50, 199]))
        game.diver_count = int(random.integers(7))
        game.e_spawn_speed = int(random.choice([1, 2, 5, 20]))
        game.e_spawn_timer = min(game.e_spawn_timer, game.e_spawn_speed)
        if game.e_spawn_speed == 1 or random.random() < 0.3:
            game.move_speed = 2  # as it is by then
            for enemy in itertools.chain(game.e_fish, game.e_subs):
                enemy[3] = min(enemy[3], 2)
        game.sub_y = int(random.integers(0, 9))
        if random.random() < 0.5:
            crowd(game, random)
        else:
            game.divers, game.d_spawn_timer = [], min(game.d_spawn_timer, 3)


def crowd(game, random):
    """Many enemies, some in one cell, about to move onto two shots, or these onto them; divers around the player."""

    def anyone(rows, *more):
        return [int(random.integers(10)), int(random.choice(rows)), bool(random.integers(2)), *more]

    rows = random.choice(np.arange(1, 9), 2, replace=False)
    game.f_bullets = [anyone([row]) for row in rows]
    near = [shot[0] + by for shot in game.f_bullets for by in (-2, -1, 0, 1, 2)]
    game.e_fish = [anyone(rows, int(random.integers(3))) for _ in range(8)]
    game.e_subs = [anyone(rows, int(random.integers(3)), int(random.integers(3))) for _ in range(8)]
    for enemy in (*game.e_fish, *game.e_subs):
        enemy[0] = int(np.clip(random.choice(near), 0, 9))
    game.divers = [anyone([max(game.sub_y, 1)], int(random.integers(3))) for _ in range(2)]
    for diver in game.divers:
        diver[0] = int(np.clip(game.sub_x + random.integers(-1, 2), 0, 9))
    game.shot_timer, game.d_spawn_timer = 10, 40  # until then, there are never more than two of either


def play_of_the_package(package, name, steps):
    """Steps of the package: state, action and chance before, and state, reward, end and picture after, of each."""
    random = np.random.default_rng(3)
    game = package.Environment(name).env
    listened = game.random = Listened(5)
    game.reset()
    action, played = 0, []
    for step in range(steps):
        if random.random() < 0.5:
            action = int(random.integers(6))
        if random.random() < 0.15:
            action = FIRE if name != "freeway" else UP
        if step % (40 if step < steps / 2 else 8) == 0:
            disturb(name, game, random)
        before = STATE_OF[name](game)
        listened.said = []
        reward, over = game.act(action)
        after = STATE_OF[name](game)
        played.append((before, np.int32(action), chance_of(name, before, listened.said), after, reward, over,
                       np.array(game.state())))  # fmt: skip
        if over and (random.random() < 0.3 or name in ("breakout", "freeway")):
            game.reset()
        game.terminal = False  # or plays on, past the end: states that are rare otherwise
    return played


@of_all_games
def test_every_step_is_the_package_s(package, name):
    played = play_of_the_package(package, name, STEPS)
    ours = GAMES[name]()
    before, actions, chances, expected, rewards, overs, pictures = zip(*played, strict=True)

    def together(trees):
        return jax.tree.map(lambda *each: np.stack(each), *trees)

    step = jax.jit(jax.vmap(ours.play))
    after = step(together(before), np.array(actions), together(chances))
    shown = np.asarray(jax.jit(jax.vmap(lambda state: ours.observation(state, None)))(after))
    after = jax.tree.map(np.asarray, after)
    for i, state in enumerate(expected):
        found = plain(jax.tree.map(lambda leaf, i=i: leaf[i], after))
        assert found == plain(state), (plain(before[i]), actions[i], chances[i])
    assert np.array_equal(after.over, overs)
    assert np.array_equal(after.reward, rewards)
    assert np.array_equal(shown, pictures)
    # it was a fair trial
    assert sum(rewards) > 20
    assert sum(overs) > 20
    assert shown.any(axis=(0, 1, 2)).all()


@of_all_games
def test_the_package_has_the_actions_and_spaces_that_we_say(package, name):
    environment = package.Environment(name)
    assert environment.sticky_action_prob == STICKY
    ours = GAMES[name]()
    assert ours.actions.tolist() == environment.minimal_action_set()
    assert list(ours.observation_space.shape) == list(environment.state_shape())
    made = pytest.importorskip("minatar.gym").BaseEnv(name, use_minimal_action_set=True)
    assert made.observation_space == ours.observation_space
    assert made.action_space == ours.action_space


@of_all_games
def test_the_first_state_is_the_package_s(package, name):
    """Of Breakout and Freeway, with what was drawn."""
    game = package.Environment(name).env
    ours = GAMES[name]()
    states = jax.jit(jax.vmap(ours.begin))(jax.random.split(jax.random.key(0), 300))
    known = {repr(plain(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], states))) for i in range(300)}
    for seed in range(20):
        game.random = np.random.RandomState(seed)
        game.reset()
        state = STATE_OF[name](game)
        if name == "freeway":
            first = ours.begin(jax.random.key(0))
            state = state._replace(paces=np.asarray(first.paces), waits=np.asarray(first.waits))
            known = {repr(plain(jax.tree.map(np.asarray, first)))}
            assert np.array_equal(first.waits, np.abs(first.paces))
        assert repr(plain(state)) in known
    assert len(known) == (2 if name == "breakout" else 1)


# --- without the package ---------------------------------------------------------------------------------------------


def test_what_is_left_to_chance_is_drawn_as_the_rules_say():
    keys = jax.random.split(jax.random.key(1), 9000)

    def share(values, of):
        return abs(np.mean(values) - of) < 5 * np.sqrt(of * (1 - of) / values.size)

    def drawn(draw):
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(keys))

    thing = drawn(asterix.Asterix().chance)
    assert share(thing.rightward, 1 / 2)
    assert share(thing.gold, 1 / 3)
    for lane in range(8):
        assert share(np.argmax(thing.order, axis=1) == lane, 1 / 8)
    paces = drawn(freeway.Freeway().chance)
    assert set(np.unique(paces)) == {-5, -4, -3, -2, -1, 1, 2, 3, 4, 5}
    for pace in np.unique(paces):
        assert share(paces == pace, 1 / 10)
    swimmer = drawn(seaquest.Seaquest().chance)
    assert share(swimmer.rightward, 1 / 2)
    assert share(swimmer.hunter, 1 / 3)
    for row in range(1, 9):
        assert share(swimmer.row == row, 1 / 8)
    balls = drawn(breakout.Breakout().begin)
    assert share(balls.ball[:, 1] == 9, 1 / 2)


def test_an_action_sticks_once_in_ten_times():
    ours = breakout.Breakout()
    state = ours.begin(jax.random.key(0))._replace(last=jnp.int32(1))
    keys = jax.random.split(jax.random.key(2), 9000)
    after = jax.jit(jax.vmap(lambda key: ours.transition(state, 2, key)))(
        keys
    )  # to the right, which is the third of its uses
    stuck = np.asarray(after.paddle) == 3
    assert np.all(stuck | (np.asarray(after.paddle) == 5))
    assert np.array_equal(stuck, np.asarray(after.last) == 1)
    assert abs(np.mean(stuck) - STICKY) < 5 * np.sqrt(STICKY * (1 - STICKY) / 9000)


def test_with_all_six_actions_the_same_number_is_another_action():
    spec = COMPILED["MinAtar/Breakout-v0"]
    assert spec.spaces.actions == 6
    assert spec.build().actions.tolist() == list(range(6))
    assert COMPILED["MinAtar/Breakout-v1"].build().actions.tolist() == [0, 1, 3]


def test_a_game_of_freeway_ends_by_itself():
    ours = freeway.Freeway()
    state = ours.begin(jax.random.key(0))
    state = state._replace(left=jnp.int32(0))
    assert not state.over
    assert ours.play(state, jnp.int32(0), ours.chance(jax.random.key(1))).over


@pytest.mark.parametrize("name", IDS)
def test_every_id_is_checked_without_the_package(name):
    findings = check(name)
    spaces = COMPILED[name].spaces
    assert [finding.level for finding in findings] == ["ok", "ok"]
    assert f"{spaces.actions} actions, observations of {100 * spaces.observation.shape[-1]} numbers" in findings[0].text


def test_a_game_is_trained(tmp_path):
    small = {"episodes": 2, "hidden": (4,), "max_episode_steps": 20}
    run = mac.train("MinAtar/Breakout-v1", "reinforce", out=tmp_path / "run", progress=False, **small)
    assert (run.experiment.engine, run.finished) == ("compiled", True)
    picture = np.zeros((10, 10, 4), bool)
    assert run.agent(0).action_probabilities(picture).shape == (3,)


def test_a_game_is_watched_with_the_package_only():
    spec = COMPILED["MinAtar/SpaceInvaders-v1"]
    experiment = make_experiment(spec.name, "mac", 1, 1, 0, {})
    if place_of("minatar") is None:
        assert "pip install minatar" in message_of(lambda: watchable(spec, experiment))
    else:
        environment = watchable(spec, experiment)()
        assert isinstance(environment, gymnasium.Env)
        assert environment.action_space == spec.spaces.action

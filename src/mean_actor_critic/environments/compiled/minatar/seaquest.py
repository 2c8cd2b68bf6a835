"""MinAtar's Seaquest."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.environments.compiled.minatar.game import (
    CELLS,
    DOWN,
    FIRE,
    LAST,
    LEFT,
    NOTHING,
    RIGHT,
    SIZE,
    UP,
    Action,
    Cell,
    Flag,
    Game,
    Layer,
    beside,
    countdown,
    heading,
    spot,
    spots,
)

DEEPEST = 8  # row; the gauges are below
OXYGEN = 200  # steps under water
CROWD = 6  # divers that fit into the submarine
RELOAD, ENEMIES_RELOAD = 5, 10  # steps between two shots
SPAWN_PACE, DIVER_PACE = 20, 30  # steps between two enemies, at first, and two divers
MOVE_PACE, QUICKEST = 5, 2  # steps that an enemy rests between two moves: at first, and at last
DIVER_REST = 5  # the same of a diver
HUNTERS = 1 / 3  # of enemies: submarines, which shoot; the others are fish
# What there is room for. A shot is gone after ten steps, a diver after sixty, an enemy of the quickest after thirty,
# when one appears in every step; while they are slower, fewer appear.
SHOTS, ENEMIES = 2, 32


class Swimmers(NamedTuple):
    """Things that cross the sea: columns and rows of each, which way it goes, and when."""

    column: Int[Array, " n"]
    row: Int[Array, " n"]
    rightward: Bool[Array, " n"]
    wait: Int[Array, " n"]  # steps until it moves
    present: Bool[Array, " n"]


class Enemies(NamedTuple):
    """Fish and submarines."""

    swim: Swimmers
    hunter: Bool[Array, " n"]  # a submarine
    shot_wait: Int[Array, " n"]  # steps until it fires, if it is one
    born: Int[Array, " n"]  # step


class State(NamedTuple):
    """The player's submarine, whom it meets, and how fast it all goes."""

    row: Cell
    column: Cell
    rightward: Flag
    oxygen: Int[Array, ""]  # steps
    aboard: Int[Array, ""]  # divers
    surfaced: Flag
    shot_wait: Int[Array, ""]  # steps until it can fire
    shots: Swimmers  # its own
    bombs: Bool[Array, "2 10 10"]  # the enemies' shots, that go left and right [row, column]
    enemies: Enemies
    divers: Swimmers  # the older one, the younger one
    spawn_wait: Int[Array, ""]  # steps until the next enemy
    spawn_pace: Int[Array, ""]
    diver_wait: Int[Array, ""]  # steps until the next diver
    move_pace: Int[Array, ""]
    ramps: Int[Array, ""]  # times that it got harder
    clock: Int[Array, ""]  # steps so far
    last: Action
    reward: Float[Array, ""]
    over: Flag


class Chance(NamedTuple):
    """Who might appear: an enemy, a diver."""

    rightward: Bool[Array, "2"]  # from the left
    row: Int[Array, "2"]
    hunter: Flag


class Seaquest(Game):
    """Shoot fish and submarines, 1 each, bring divers up before the air is used up, and touch nobody else.

    Coming up costs a diver, and whoever has none is lost. Six are worth as many as there are tenths of the air left.
    """

    channels: ClassVar[int] = 10
    uses: ClassVar[tuple[int, ...]] = (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

    def begin(self, rng: Array) -> State:  # noqa: ARG002
        """Alone at the surface."""
        no, zero = jnp.bool_(False), jnp.int32(0)
        none = jnp.zeros(ENEMIES, jnp.int32)
        return State(
            row=zero,
            column=jnp.int32(5),
            rightward=no,
            oxygen=jnp.int32(OXYGEN),
            aboard=zero,
            surfaced=jnp.bool_(True),
            shot_wait=zero,
            shots=_nobody(SHOTS),
            bombs=jnp.zeros((2, SIZE, SIZE), bool),
            enemies=Enemies(_nobody(ENEMIES), none > 0, none, none),
            divers=_nobody(2),
            spawn_wait=jnp.int32(SPAWN_PACE),
            spawn_pace=jnp.int32(SPAWN_PACE),
            diver_wait=jnp.int32(DIVER_PACE),
            move_pace=jnp.int32(MOVE_PACE),
            ramps=zero,
            clock=zero,
            last=zero,
            reward=jnp.float32(0),
            over=no,
        )

    def chance(self, rng: Array) -> Chance:
        """Who might appear, and where."""
        side_key, row_key, hunter_key = jax.random.split(rng, 3)
        rows = jax.random.randint(row_key, (2,), 1, DEEPEST + 1)
        return Chance(jax.random.bernoulli(side_key, shape=(2,)), rows, jax.random.bernoulli(hunter_key, HUNTERS))

    def play(self, state: State, action: Action, chance: Chance) -> State:
        """Others appear, the player acts, shots, divers, enemies and bombs move, and the air gets less."""
        state = _steered(_joined(state, chance), action)
        state = _bombed(_swum(_rescued(_shot(state))))
        breathes = state._replace(
            spawn_wait=countdown(state.spawn_wait),
            diver_wait=countdown(state.diver_wait),
            shot_wait=countdown(state.shot_wait),
            clock=state.clock + 1,
            last=action,
        )
        return _breathed(breathes)

    def layers(self, state: State) -> list[Layer]:
        """The submarine's bow and stern, shots, trails, bombs, fish, submarines, the gauges, divers."""
        swim, hunter = state.enemies.swim, state.enemies.hunter
        air = state.oxygen * SIZE // OXYGEN
        gauges = CELLS[:, None] == LAST
        return [
            spot(state.row, state.column),
            spot(state.row, state.column - heading(state.rightward)),
            _layer(state.shots),
            _layer(_behind(swim)) | _layer(_behind(state.divers)),
            jnp.any(state.bombs, axis=0),
            _layer(swim._replace(present=swim.present & ~hunter)),
            _layer(swim._replace(present=swim.present & hunter)),
            gauges & (air > CELLS),
            gauges & (CELLS < LAST) & (LAST - state.aboard <= CELLS),
            _layer(state.divers),
        ]


def _nobody(count: int) -> Swimmers:
    none = jnp.zeros(count, jnp.int32)
    return Swimmers(none, none, none > 0, none, none > 0)


def _layer(swimmers: Swimmers) -> Layer:
    return spots(swimmers.row, swimmers.column, swimmers.present)


def _behind(swimmers: Swimmers) -> Swimmers:
    return swimmers._replace(column=swimmers.column - heading(swimmers.rightward))


def _placed(
    swimmers: Swimmers, where: Bool[Array, " n"], row: Cell, column: Cell, rightward: Flag, wait: Array
) -> Swimmers:
    """With somebody new in one place."""
    return Swimmers(
        jnp.where(where, column, swimmers.column),
        jnp.where(where, row, swimmers.row),
        jnp.where(where, rightward, swimmers.rightward),
        jnp.where(where, wait, swimmers.wait),
        swimmers.present | where,
    )


def _free(swimmers: Swimmers, wanted: Flag) -> Bool[Array, " n"]:
    """The first place that is free, if it is wanted."""
    first = jnp.argmin(swimmers.present)
    return (jnp.arange(swimmers.present.shape[0]) == first) & ~swimmers.present & wanted


def _edge(rightward: Flag) -> Cell:
    """The column where somebody appears."""
    return jnp.where(rightward, 0, LAST)


def _meets(state: State, swimmers: Swimmers) -> Bool[Array, " n"]:
    """Who is where the player is."""
    return swimmers.present & (swimmers.row == state.row) & (swimmers.column == state.column)


def _moved(swimmers: Swimmers, rest: Array | int) -> Swimmers:
    """A step later: those that have waited long enough move, and are gone if that leads outside."""
    moves = swimmers.wait == 0
    column = swimmers.column + moves * heading(swimmers.rightward)
    inside = (column >= 0) & (column <= LAST)
    wait = jnp.where(moves, rest, swimmers.wait - 1)
    return swimmers._replace(column=column, wait=wait, present=swimmers.present & inside)


def _joined(state: State, chance: Chance) -> State:
    """With an enemy, unless one goes the other way in its row, and a diver, when it is time for them."""
    comes, surfaces = state.spawn_wait == 0, state.diver_wait == 0
    (from_left, diver_from_left), (row, diver_row) = chance.rightward, chance.row
    swim = state.enemies.swim
    is_barred = jnp.any(swim.present & (swim.row == row) & (swim.rightward != from_left))
    where = _free(swim, comes & ~is_barred)
    enemies = Enemies(
        _placed(swim, where, row, _edge(from_left), from_left, state.move_pace),
        jnp.where(where, chance.hunter, state.enemies.hunter),
        jnp.where(where, ENEMIES_RELOAD, state.enemies.shot_wait),
        jnp.where(where, state.clock, state.enemies.born),
    )
    # the newest diver is always the second: the one before moves up
    second = jnp.array([False, True])
    shifts = surfaces & ~state.divers.present[0]
    divers = jax.tree.map(lambda each: jnp.where(shifts, each[::-1], each), state.divers)
    divers = _placed(
        divers, second & surfaces, diver_row, _edge(diver_from_left), diver_from_left, jnp.int32(DIVER_REST)
    )
    return state._replace(
        enemies=enemies,
        divers=divers,
        spawn_wait=jnp.where(comes, state.spawn_pace, state.spawn_wait),
        diver_wait=jnp.where(surfaces, DIVER_PACE, state.diver_wait),
    )


def _steered(state: State, action: Action) -> State:
    """The player fires or moves."""
    fires = (action == FIRE) & (state.shot_wait == 0)
    where = _free(state.shots, fires)
    return state._replace(
        row=beside(state.row, action, UP, DOWN, 0, DEEPEST),
        column=beside(state.column, action, LEFT, RIGHT),
        rightward=(action == RIGHT) | (state.rightward & (action != LEFT)),
        shots=_placed(state.shots, where, state.row, state.column, state.rightward, jnp.int32(0)),
        shot_wait=jnp.where(fires, RELOAD, state.shot_wait),
    )


def _struck(state: State, rank: Int[Array, " n"]) -> State:
    """Each shot and one enemy where it is remove each other: that with the highest rank, none with a negative one."""
    shots, swim, hits = state.shots, state.enemies.swim, []
    present = swim.present & (rank >= 0)
    for i in range(SHOTS):
        met = present & shots.present[i] & (swim.row == shots.row[i]) & (swim.column == shots.column[i])
        first = jnp.argmax(jnp.where(met, rank, -1))
        hits.append(jnp.any(met))
        present &= ~(met & (jnp.arange(ENEMIES) == first))
    hit = jnp.stack(hits)
    left = present | (swim.present & (rank < 0))
    return state._replace(
        shots=shots._replace(present=shots.present & ~hit),
        enemies=state.enemies._replace(swim=swim._replace(present=left)),
        reward=state.reward + jnp.sum(hit),
    )


def _shot(state: State) -> State:
    """The player's shots move, and meet fish before submarines, the oldest first."""
    after_all, age = state.clock + 1, state.clock - state.enemies.born
    moved = state._replace(shots=_moved(state.shots, 0), reward=jnp.float32(0))
    return _struck(moved, age + jnp.where(state.enemies.hunter, 0, after_all))


def _rescued(state: State) -> State:
    """Divers move, and are taken aboard before or after that, as long as there is room; the younger one first."""
    divers = state.divers
    there, moved = _meets(state, divers), _moved(divers, DIVER_REST)
    later = _meets(state, moved) & (divers.wait == 0)
    aboard, present = state.aboard, []
    for i in (1, 0):
        taken = (there[i] | later[i]) & (aboard < CROWD)
        aboard = aboard + taken
        present.append(moved.present[i] & ~taken)
    return state._replace(divers=moved._replace(present=jnp.stack(present[::-1])), aboard=aboard)


def _swum(state: State) -> State:
    """Enemies move, may meet the player or else a shot, submarines and the youngest first; submarines fire still."""
    swim, hunter, shot_wait, born = state.enemies
    moved = _moved(swim, state.move_pace)
    meets = _meets(state, moved)
    fires = moved.present & hunter & (shot_wait == 0)
    left = spots(moved.row, moved.column, fires & ~moved.rightward)
    right = spots(moved.row, moved.column, fires & moved.rightward)
    enemies = Enemies(moved, hunter, jnp.where(shot_wait == 0, ENEMIES_RELOAD, shot_wait - 1), born)
    rank = jnp.where((swim.wait == 0) & ~meets, born + jnp.where(hunter, state.clock + 1, 0), -1)
    return _struck(
        state._replace(
            enemies=enemies,
            bombs=state.bombs | jnp.stack([left, right]),
            over=state.over | jnp.any(_meets(state, swim) | meets),
        ),
        rank,
    )


def _bombed(state: State) -> State:
    """Bombs move."""
    here = spot(state.row, state.column)
    left, right = state.bombs
    moved = jnp.stack([jnp.roll(left, -1, axis=1) & (CELLS < LAST), jnp.roll(right, 1, axis=1) & (CELLS > 0)])
    return state._replace(bombs=moved, over=state.over | jnp.any(here & (state.bombs | moved)))


def _breathed(state: State) -> State:
    """The air gets less under water; at the surface there is more, for a diver, and it gets harder.

    After six divers were brought up the package counts -1, and only none is fatal: so here.
    """
    under = state.row > 0
    comes_up = ~under & ~state.surfaced
    surfaces = comes_up & (state.aboard != 0)
    is_full = surfaces & (state.aboard == CROWD)
    ramps = surfaces & ((state.spawn_pace > 1) | (state.move_pace > QUICKEST))
    quicker = ramps & (state.move_pace > QUICKEST) & (state.ramps % 2 == 1)
    return state._replace(
        oxygen=jnp.where(surfaces, OXYGEN, state.oxygen - under),
        aboard=jnp.where(is_full, 0, state.aboard) - surfaces,
        surfaced=~under & (state.surfaced | surfaces),
        spawn_pace=state.spawn_pace - (ramps & (state.spawn_pace > 1)),
        move_pace=state.move_pace - quicker,
        ramps=state.ramps + ramps,
        reward=state.reward + jnp.where(is_full, state.oxygen * SIZE // OXYGEN, 0),
        over=state.over | (state.oxygen <= 0) | (comes_up & ~surfaces),
    )

"""What the paper's studies are and what it reports, to stand beside what comes out here."""

from typing import Any, NamedTuple

COMPARED = ("reinforce", "advantage_reinforce", "actor_critic", "advantage_actor_critic", "mac")  # in its Table 1
TABLE_2 = {"advantage_actor_critic": "A2C", "mac": "MAC"}  # what it runs on games, by the names that it gives them


class Published(NamedTuple):
    """A mean over trials and episodes, and a "±" that the paper does not explain."""

    mean: float
    spread: float


class Task(NamedTuple):
    """One of the paper's classic-control studies."""

    title: str
    environment: str
    steps: int  # time limit of an episode
    episodes: int  # the authors' code trains for so many
    budgets: tuple[int, ...]  # episodes to report at; the paper does not say over how many its means run
    solved: float  # mean return from which Gymnasium takes it to be solved
    quick: tuple[int, int]  # trials and episodes of a first look that takes minutes
    halving: str | None  # how hopeless settings are stopped in its search; None where the whole grid can be afforded
    fixed: dict[str, Any]  # settings of its search that the paper's text leaves open (decision 10)
    scores: dict[str, Published]


CLASSIC_CONTROL = {
    "cart-pole": Task(
        "Cart Pole",
        "CartPole-v0",
        steps=200,
        episodes=200,
        budgets=(200, 500, 1000),
        solved=195.0,
        quick=(20, 200),
        halving=None,
        # the minibatches of the authors' code; target and discount are what served most algorithms best in a first look
        fixed={"minibatches": 10, "batch_size": 32, "critic_target": "monte_carlo", "discount": 0.99},
        scores={
            "reinforce": Published(109.5, 13.3),
            "advantage_reinforce": Published(121.8, 11.2),
            "actor_critic": Published(138.7, 13.2),
            "advantage_actor_critic": Published(157.4, 6.4),
            "mac": Published(178.3, 7.6),
        },
    ),
    "lunar-lander": Task(
        "Lunar Lander",
        "LunarLander-v3",
        steps=1000,
        episodes=3000,
        budgets=(1000, 3000),
        solved=200.0,
        quick=(8, 300),
        halving="episodes",
        # minibatches and replay of the authors' code, with the discount of our presets
        fixed={"minibatches": 10, "batch_size": 32, "replay_capacity": 5000, "discount": 0.99},
        scores={
            "reinforce": Published(101.1, 10.5),
            "advantage_reinforce": Published(114.7, 8.1),
            "actor_critic": Published(124.6, 5.1),
            "advantage_actor_critic": Published(162.8, 14.9),
            "mac": Published(163.5, 12.8),
        },
    ),
}


class Game(NamedTuple):
    """A row of the paper's Table 2: final scores after 50 million agent steps, means of 5 trials for A2C and MAC."""

    title: str
    environment: str
    random: float
    trpo: float
    evolution: float
    scores: dict[str, float]  # by algorithm


def _game(title: str, name: str, random: float, trpo: float, evolution: float, a2c: float, mac: float) -> Game:
    return Game(title, f"ALE/{name}-v5", random, trpo, evolution, {"advantage_actor_critic": a2c, "mac": mac})


ATARI = {
    "beam-rider": _game("Beam Rider", "BeamRider", 363.9, 1425.2, 744.0, 5846.0, 6072.0),
    "breakout": _game("Breakout", "Breakout", 1.7, 10.8, 9.5, 370.9, 372.7),
    "pong": _game("Pong", "Pong", -20.7, 20.9, 21.0, 18.0, 10.6),
    "qbert": _game("Q*bert", "Qbert", 183.0, 1973.5, 147.5, 1651.5, 243.4),
    "seaquest": _game("Seaquest", "Seaquest", 68.4, 1908.6, 1390.0, 1702.5, 1703.4),
    "space-invaders": _game("Space Invaders", "SpaceInvaders", 148.0, 568.4, 678.5, 1201.2, 1173.1),
}
ATARI_TRIALS = 5
ATARI_STEPS = 50_000_000  # agent steps of a trial, four frames each


def _architectures() -> tuple[tuple[int, ...], ...]:
    """No hidden layer, or one to three of equal width."""
    return ((), *((units,) * depth for depth in (1, 2, 3) for units in (50, 75, 100, 300)))


def papers_grid(environment: str) -> dict[str, Any]:
    """The paper's search for an environment, as JSON for `grid.grid_from_json`: 1036 settings of each algorithm.

    37 networks (a linear one has no activation) × 4 optimisers × 7 learning rates.
    """
    task = next((task for task in CLASSIC_CONTROL.values() if task.environment == environment), None)
    return {
        "choices": {
            "hidden": [list(widths) for widths in _architectures()],
            "activation": ["relu", "leaky_relu", "tanh"],
            "optimizer": ["sgd", "rmsprop", "adam", "adadelta"],
            "lr": [0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.01, 0.05],
        },
        "fixed": task.fixed if task else {"minibatches": 10, "batch_size": 32},
    }


SEARCH_TRIALS = 10  # of each setting

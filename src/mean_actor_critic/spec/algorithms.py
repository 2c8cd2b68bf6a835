"""Which algorithms there are: what each is called, and what it needs of a learner.

An algorithm is a function in `learning.estimators` and an entry here. Which of them the paper compares is said in
`spec.paper`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.checks import unknown_name

POLICY, CRITIC, BASELINE, STATE_VALUES = "policy", "critic", "baseline", "state values"
PARTS = frozenset({POLICY, CRITIC, BASELINE, STATE_VALUES})


class Algorithm(NamedTuple):
    """What the world outside `learning.estimators` needs to know of an algorithm."""

    title: str
    help: str  # what weighs the actions in the policy gradient
    learners: tuple[str, ...]  # that it can learn by
    parts: frozenset[str]  # settings with such a role apply only where the part exists
    colour: str  # of its lines, and the same for dark pages
    dark_colour: str


# In the paper's order. The colours are Okabe and Ito's, which colour-blind readers can tell apart.
ALGORITHMS: dict[str, Algorithm] = {
    "reinforce": Algorithm("REINFORCE", "the return", ("episodic",), frozenset({POLICY}), "#7F7F7F", "#A9B0B8"),
    "advantage_reinforce": Algorithm(
        "Adv. REINFORCE",
        "the return above a running average",
        ("episodic",),
        frozenset({POLICY, BASELINE}),
        "#CC79A7",
        "#E9A3CB",
    ),
    "actor_critic": Algorithm(
        "Actor-Critic",
        "the critic's value of the action taken",
        ("episodic",),
        frozenset({POLICY, CRITIC}),
        "#009E73",
        "#2FC89B",
    ),
    "advantage_actor_critic": Algorithm(
        "Adv. Actor-Critic",
        "that value above the state's (on games: what the paper calls A2C)",
        ("episodic", "rollout", "replayed"),
        frozenset({POLICY, CRITIC}),
        "#0072B2",
        "#56B4E9",
    ),
    "mac": Algorithm(
        "MAC",
        "the critic's values averaged over all actions",
        ("episodic", "rollout", "replayed"),
        frozenset({POLICY, CRITIC}),
        "#D55E00",
        "#FF8A3D",
    ),
    "a2c": Algorithm(
        "A2C (Baselines)",
        "the n-step return above the state's value",
        ("rollout",),
        frozenset({POLICY, CRITIC, STATE_VALUES}),
        "#E69F00",
        "#F0B833",
    ),
    "q_learning": Algorithm(
        "Q-learning",
        "no policy: the action of the highest value, a few others for exploration",
        ("replayed",),
        frozenset({CRITIC}),
        "#56B4E9",
        "#8ED1F5",
    ),
}


def algorithm_of(name: str) -> Algorithm:
    """The algorithm of that name. `module:function` is a function that a user gave, which may use all there is."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    title = name.rpartition(":")[2].rpartition(".")[2]
    return Algorithm(
        title,
        "an estimator given from Python",
        ("episodic",),
        frozenset({POLICY, CRITIC, BASELINE}),
        "#56B4E9",
        "#8ED1F5",
    )


def is_given(name: str) -> bool:
    """Whether an algorithm's name is that of a function that was given from Python."""
    return ":" in name


def checked_algorithm(given: Any, learner: str | None = None) -> tuple[str, Callable[..., Any] | None]:
    """The name of an algorithm, and the function where one was given.

    Args:
        given: a name, or a function from `Evidence` to weights [time, action].
        learner: that is to learn by it; None for any.

    Raises:
        InputError: there is no such algorithm, or the learner cannot learn by it.
    """
    if callable(given):
        where, what = getattr(given, "__module__", None), getattr(given, "__qualname__", type(given).__qualname__)
        name, function = f"{where}:{what}", given
    else:
        name, function = given, None
        known = [known for known, algorithm in ALGORITHMS.items() if learner in (None, *algorithm.learners)]
        if not isinstance(name, str) or (name not in ALGORITHMS and not is_given(name)):
            raise unknown_name("algorithm", name, known)
        if name in ALGORITHMS and name not in known:
            raise InputError("algorithm", name, f"{', '.join(known)}, by the learner {learner}")
    return name, function

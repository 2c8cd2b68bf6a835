"""What the paper reports, to stand beside what comes out here."""

from typing import NamedTuple


class Published(NamedTuple):
    """A mean over trials and episodes, and a "±" that the paper does not explain."""

    mean: float
    spread: float


CART_POLE_SCORES = {
    "reinforce": Published(109.5, 13.3),
    "advantage_reinforce": Published(121.8, 11.2),
    "actor_critic": Published(138.7, 13.2),
    "advantage_actor_critic": Published(157.4, 6.4),
    "mac": Published(178.3, 7.6),
}
CART_POLE_BUDGETS = (200, 500, 1000)  # episodes; the paper does not say over how many its mean runs

"""Small runs of every engine and algorithm whose bits are known: `python tests/golden.py` records them anew.

Bits depend on the machine and the versions of libraries, so digests are kept for each kind of machine. A change that is
not meant to change results leaves all of them equal.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "data" / "golden.json"
# what bits depend on besides the code; "convolutions" only matters to games, which are recorded with it
KIND = ("jax", "jaxlib", "numpy", "optax", "device", "devices", "machine")

_GAME = {
    "steps": 96, "environments": 2, "screen_size": 36, "evaluation_interval": 48, "evaluation_episodes": 2,
    "evaluation_steps": 12, "evaluation_environments": 2, "seed": 3,
}  # fmt: skip
_SMALL = {"trials": 3, "episodes": 6, "seed": 11}
_SARSA = {"critic_target": "expected_sarsa", "hidden": (16, 8), "minibatches": 4, "batch_size": 8}

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"compiled {name}": ("CartPole-v0", name, _SMALL) for name in
       ("reinforce", "advantage_reinforce", "actor_critic", "advantage_actor_critic", "mac")},
    "compiled alone": ("CartPole-v1", "mac", {**_SMALL, "trials": 1, "snapshots": 3, **_SARSA}),
    "compiled normalised": (
        "CartPole-v0", "mac",
        {**_SMALL, **_SARSA, "normalize_observations": True, "time_limit": "terminal", "actor_lr": [0.01, 0.02, 0.04]},
    ),
    "compiled rmsprop": ("CartPole-v0", "actor_critic", {**_SMALL, **_SARSA, "optimizer": "rmsprop"}),
    "compiled many": ("CartPole-v0", "mac", {**_SMALL, "trials": 120, "episodes": 2, "first_trial": 7}),
    "hosted mac": ("CartPole-v0", "mac", {**_SMALL, "engine": "hosted"}),
    "hosted advantage_actor_critic": ("Acrobot-v1", "advantage_actor_critic",
                                      {**_SMALL, "episodes": 2, "max_episode_steps": 60, "engine": "hosted"}),
    "hosted advantage_reinforce": ("FrozenLake-v1", "advantage_reinforce",
                                   {**_SMALL, "max_episode_steps": 40, "engine": "hosted"}),
    "atari mac": ("ALE/Pong-v5", "mac", {**_GAME, "trials": 2}),
    "atari a2c": ("ALE/Breakout-v5", "a2c", {**_GAME, "steps": 240, "evaluation_interval": 120}),
    "atari pipelined": ("ALE/Breakout-v5", "advantage_actor_critic", {**_GAME, "pipelined": True}),
    "atari machado": ("ALE/Pong-v5", "mac", {**_GAME, "protocol": "machado", "grey": False, "rollout_steps": 3}),
}  # fmt: skip


def digests(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """The beginning of the SHA-256 of each array, its type and shape."""
    found = {}
    for name, array in sorted(arrays.items()):
        digest = hashlib.sha256(json.dumps([array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
        found[name] = digest.hexdigest()[:16]
    return found


def train(name: str, folder: Path) -> dict[str, str]:
    """Train a case; returns the digests of all arrays of its last checkpoint."""
    import mean_actor_critic as mac

    environment, algorithm, arguments = CASES[name]
    run = mac.train(environment, algorithm, out=folder / name.replace(" ", "-"), progress=False, **arguments)
    return digests(run._arrays)


def kind() -> str:
    """The kind of machine that this is."""
    from mean_actor_critic.engines.devices import versions

    here = versions("atari")
    return "; ".join(f"{name} {here[name]}" for name in (*KIND, "convolutions"))


def recorded() -> dict[str, dict[str, dict[str, str]]]:
    """By kind of machine, case and array."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def main() -> None:
    """Record the cases named, or all, for this kind of machine."""
    known = recorded()
    here = known.setdefault(kind(), {})
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or CASES:
            here[name] = train(name, Path(folder))
    FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

"""True files to damage: small runs, agents, a search and a measurement, the same bytes whenever they are made.

`python corpus.py FOLDER` makes them with `mac`, in one process; with the word `small` a few of them, for tests.
"""

import json
import sys
from pathlib import Path

GRID = {
    "choices": {"hidden": [[4], [8, 4]], "lr": [0.01, 0.02]},
    "fixed": {"minibatches": 2, "batch_size": 4, "replay_capacity": 16, "max_episode_steps": 10},
}
_SET = ("--set", "hidden=8", "minibatches=2", "batch_size=4", "replay_capacity=16")
COMMANDS = (
    ("train", "CartPole-v0", "--trials", "2", "--episodes", "3", "--max-episode-steps", "20", "--snapshots", "2",
     "--evaluate-every", "2", *_SET, "evaluation_episodes=2", "--out", "episodic"),
    ("train", "CartPole-v1", "--trials", "2", "--steps", "300", "--max-episode-steps", "20", "--evaluate-every", "150",
     "--set", "hidden=4", "evaluation_episodes=2", "replay_capacity=2000", "--out", "replayed"),
    ("train", "Taxi-v3", "--steps", "64", "--learner", "rollout", "--set", "hidden=4", "--out", "rollout"),
    ("sweep", "CartPole-v0", "--algorithm", "mac", "reinforce", "--grid", "grid.json", "--trials", "2",
     "--episodes", "3", "--out", "sweep"),
    ("gradients", "episodic", "--replicates", "100", "--batch-sizes", "1,episode", "--out", "theory"),
    ("export", "episodic", "--out", "episodic.safetensors"),
    ("export", "replayed", "--trial", "1", "--out", "replayed.safetensors"),
    ("export", "rollout", "--out", "rollout.safetensors"),
)  # fmt: skip
SMALL = (  # a few of them, which take a third of the time
    COMMANDS[0],
    ("sweep", "CartPole-v0", "--algorithm", "mac", "--grid", "grid.json", "--trials", "2", "--episodes", "2",
     "--out", "sweep"),
    ("export", "episodic", "--out", "episodic.safetensors"),
)  # fmt: skip
# What lies there afterwards: the kind of a file, by its name or a pattern
FILES = {
    "episodic/manifest.json": "manifest",
    "replayed/manifest.json": "manifest",
    "rollout/manifest.json": "manifest",
    "episodic/checkpoint-*.safetensors": "checkpoint",
    "replayed/checkpoint-*.safetensors": "checkpoint",
    "rollout/checkpoint-*.safetensors": "checkpoint",
    "episodic.safetensors": "agent",
    "replayed.safetensors": "agent",
    "rollout.safetensors": "agent",
    "sweep/sweep.json": "sweep",
    "sweep/cells/*.safetensors": "cell",
    "theory/theory.json": "theory",
    "grid.json": "grid",
}


def make(folder: Path, commands: tuple[tuple[str, ...], ...] = COMMANDS) -> None:
    """Make them all, with a clock that stands still: times are in their checksums."""
    import os

    from mean_actor_critic.cli.main import main
    from mean_actor_critic.runs import store
    from mean_actor_critic.studies import sweep

    for module in (store, sweep):
        module.now = lambda: "2026-01-01T00:00:00+00:00"  # type: ignore[attr-defined]
    os.chdir(folder)
    Path("grid.json").write_text(json.dumps(GRID))
    for words in commands:
        main([*words, *([] if words[0] == "export" else ["--quiet"])])
    for path in Path().glob("*/manifest.json"):  # one checkpoint of each run, the newest, is enough
        for file in sorted(path.parent.glob("checkpoint-*"))[:-1]:
            file.unlink()


if __name__ == "__main__":
    del sys.path[0]
    make(Path(sys.argv[1]), SMALL if sys.argv[2:] else COMMANDS)

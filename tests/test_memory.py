"""Memory that a run needs is known beforehand; where it is refused all the same, one line says so and nobody waits."""

import resource

import gymnasium
import numpy as np
import pytest

from helpers import TINY_WORDS, arrays_of, assert_refused, mac, mac_within, run_python, tiny_run
from mean_actor_critic import machine
from mean_actor_critic.cli import training
from mean_actor_critic.engines import memory
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.spaces import Spaces, fitted
from mean_actor_critic.errors import OutOfMemoryError
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import Budget, make_experiment

# 8.8 GB of replay
LARGE = ("train", "CartPole-v0", "--trials", "200", "--episodes", "3", "--quiet", "--set", "replay_capacity=1000000",
         "hidden=4")  # fmt: skip
LIMIT = ("RLIMIT_AS", 3_500_000 * 1024)


def test_a_run_that_cannot_fit_is_refused_before_it_begins(tmp_path):
    outcome = run_python(mac_within(*LIMIT), *LARGE, "--out", tmp_path / "run")
    assert_refused(outcome, 1, "needs 44.0 GB", "ulimit -v", "fewer trials or a smaller replay_capacity")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("engine", ["compiled", "hosted"])
def test_a_refusal_that_nobody_foresaw_is_one_line_too(engine, tmp_path):
    """NumPy would wait for ever for the results of a program that was refused its memory in the background."""
    unforeseen = "from mean_actor_critic.runs import train as loop; loop.require_memory = lambda *_: None"
    script = mac_within(*LIMIT, unforeseen)
    outcome = run_python(script, *LARGE, "--engine", engine, "--out", tmp_path / "run")
    assert_refused(outcome, 1, "not enough memory for this run", "RESOURCE_EXHAUSTED")


def states_in(run) -> int:
    """Bytes of the learners' states in a checkpoint."""
    return sum(array.nbytes for name, array in arrays_of(run).items() if "state/" in name)


@pytest.mark.parametrize(("engine", "trials", "copies"), [("compiled", 1, 4), ("compiled", 3, 5), ("hosted", 3, 3)])
def test_what_is_said_to_be_needed_is_as_many_copies_as_were_measured_of_what_a_checkpoint_holds(
    engine, trials, copies, tmp_path
):
    run = tiny_run(tmp_path, "CartPole-v0", engine=engine, trials=trials)
    assert memory.need(run.experiment, run.manifest.spaces).size == copies * states_in(run)


def test_the_same_of_a_game(tmp_path):
    words = ["train", "ALE/Pong-v5", "--steps", "8", "--out", tmp_path / "run", "--trials", "2"]
    settings = ["environments=2", "evaluation_interval=8", "evaluation_environments=2", "evaluation_episodes=2"]
    assert mac(*words, "--set", *settings, "evaluation_steps=4").code == 0
    run = Run.load(tmp_path / "run")
    counters = 2 * 8  # of the two trials' replay, which holds nothing and is not written
    assert memory.need(run.experiment, run.manifest.spaces).size == 3 * (states_in(run) + counters)


def test_snapshots_count_too_and_a_search_writes_no_checkpoints(tmp_path):
    run = tiny_run(tmp_path, "CartPole-v0", engine="hosted", snapshots=[0, 3])
    asked = run.experiment, run.manifest.spaces
    kept = sum(array.nbytes for name, array in arrays_of(run).items() if name.startswith("snapshots/"))
    assert memory.need(*asked, run.manifest.snapshots).size == memory.need(*asked).size + 3 * kept
    assert memory.need(*asked, writes=False).size == states_in(run)


def test_a_run_that_takes_much_says_so_when_it_starts(tmp_path, monkeypatch):
    words = ("train", "CartPole-v0", *TINY_WORDS, "--out")
    assert "memory" not in mac(*words, tmp_path / "small").err
    monkeypatch.setattr(training, "MENTIONED", 0)
    assert "; takes 0.0 GB of memory\nrun folder" in mac(*words, tmp_path / "large").err


def test_a_run_that_was_begun_elsewhere_is_refused_when_it_is_resumed(files, monkeypatch):
    files.checkpoint.unlink()
    monkeypatch.setattr(machine, "room", lambda: machine.Room(1000, "left"))
    assert_refused(mac("resume", files.run), 1, "not enough memory for this run", "0.0 GB are left")


@pytest.mark.parametrize(("hidden", "words"), [((8,), "replay_capacity"), ((500, 500), "hidden layers")])
def test_what_would_help_is_named(hidden, words, tmp_path):
    run = tiny_run(tmp_path, "CartPole-v0", hidden=hidden, replay_capacity=10_000, episodes=1)
    with pytest.raises(OutOfMemoryError, match=words):
        memory.require_memory(memory.need(run.experiment, run.manifest.spaces)._replace(size=2**62))


def need_of_replayed(observation, rows, trials=1):
    """Bytes that the general learner is said to need for so many steps on an environment with an observation space."""
    spaces = Spaces(observation, gymnasium.spaces.Discrete(4))
    settings = {"replay_capacity": rows}
    experiment = make_experiment(
        "images", "mac", trials, Budget("steps", 1000), 0, settings, engine="hosted", learner="replayed"
    )
    return memory.need(fitted(experiment, spaces), spaces)


def test_a_ring_of_a_million_images_is_of_bytes_and_refused_where_it_does_not_fit(monkeypatch):
    images = need_of_replayed(gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8), 10**6)
    one = 84 * 84 * 4 + 4 + 4 + 1 + 1 + 4  # and action, reward, two ends, behaviour
    assert 3 * one * 10**6 < images.size < 3.01 * one * 10**6
    monkeypatch.setattr(machine, "room", lambda: machine.Room(16 * 10**9, "left"))
    with pytest.raises(OutOfMemoryError, match=r"needs 84.8 GB, and 16.0 GB are left; a smaller replay_capacity"):
        memory.require_memory(images)


def test_a_board_for_steps_keeps_the_last_images_alone_and_as_bytes():
    """Whole episodes of 27 000 steps would be 12 GB."""
    lanes, time, image = 4, 27_000, 84 * 84 * 4
    board = boards.bytes_of(boards.Size(lanes, time, image, workers=1, whole=False, in_bytes=True))
    of_steps = lanes * time * (4 + 4)  # reward and action, which a resume needs
    assert lanes * image < board - of_steps < 1.1 * lanes * image


def test_flags_take_a_byte_and_choices_no_more_than_their_number():
    flags = need_of_replayed(gymnasium.spaces.Box(0, 1, (10, 10, 4), np.bool_), 10**6).size
    assert 3 * (400 + 14) * 10**6 < flags < 3.2 * (400 + 14) * 10**6
    taxi = need_of_replayed(gymnasium.spaces.Discrete(500), 10**6).size
    assert 3 * (2 + 14) * 10**6 < taxi < 3.5 * (2 + 14) * 10**6


# --- what there is ---------------------------------------------------------------------------------------------------


def test_there_is_room_and_less_below_a_limit(monkeypatch):
    free = machine.room().size
    assert 0 < free <= machine.memory_bytes() * 4  # with what can be swapped out
    held = machine._sizes_in(machine.Path("/proc/self/status"))["VmSize"]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (held + 10**6, -1))
    room = machine.room()
    assert 0 <= room.size <= 10**6
    assert "ulimit" in room.bound


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_s_limit_counts_and_copies_of_files_in_it_do_not(version, tmp_path, monkeypatch):
    root, names, prefix = {
        1: (tmp_path / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"),
        2: (tmp_path, ("memory.max", "memory.current"), ""),
    }[version]
    own = root / "outer" / "inner"
    own.mkdir(parents=True)
    for folder, limit in ((root / "outer", "1000"), (own, str(2**60) if version == 1 else "max")):
        for name, text in zip(names, (limit, "700"), strict=True):
            (folder / name).write_text(text)
        (folder / "memory.stat").write_text(f"anon 5\n{prefix}inactive_file 300\n{prefix}active_file 100\n")
    memberships = tmp_path / "memberships"
    memberships.write_text("5:cpu,cpuacct:/\n4:memory:/outer/inner\n" if version == 1 else "0::/outer/inner\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "MEMBERSHIPS", memberships)
    assert machine.memory_bytes() == 1000
    assert machine.room() == (700, "left in this container")


def test_where_nothing_is_told_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_sizes_in", lambda file: {})
    monkeypatch.setattr(machine, "MEMBERSHIPS", tmp_path / "none")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert machine.room() == (machine.memory_bytes(), "on this machine")


def test_results_on_the_host_are_numpy_s():
    one, (two, three) = memory.on_host((np.arange(3), (np.float32(1), np.zeros(0))))
    assert isinstance(one, np.ndarray)
    assert (one.sum(), two, three.size) == (3, 1, 0)

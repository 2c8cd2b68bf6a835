"""Same seed, same bits: whatever interrupts a run, whoever its neighbours are."""

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import EPISODIC, LONGEST_WAIT
from mean_actor_critic.engines import devices, study
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.runs import loop, store
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.learners import OPTIMIZERS

pytestmark = pytest.mark.slow

SMALL = {"hidden": (16,), "minibatches": 4, "batch_size": 8, "replay_capacity": 300}
# some ten seconds of training: long enough to be killed at many different moments
LONG = ["CartPole-v0", "--trials", "12", "--episodes", "1500", "--seed", "5", "--checkpoint-seconds", "0.3",
        "--set", "hidden=64", "minibatches=20", "batch_size=32", "replay_capacity=500", "critic_target=expected_sarsa",
        "activation=relu", "actor_lr=0.005", "critic_lr=0.01", "discount=0.99"]  # fmt: skip


def command(*words):
    return [sys.executable, "-m", "mean_actor_critic", *map(str, words)]


def wait_for_checkpoint(folder, process, after=()):
    """Until a checkpoint other than `after` is there, or the process has ended."""
    while process.poll() is None:
        names = {file.name for file in folder.glob("checkpoint-*.safetensors")}
        if names - set(after):
            return
        time.sleep(0.02)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    subprocess.run(command("train", *LONG, "--quiet", "--out", folder), check=True, timeout=300)
    return mac.Run.load(folder).digest


@pytest.mark.optimised
def test_killed_at_random_moments_and_resumed_gives_the_same_bits(start, tmp_path, uninterrupted, pytestconfig):
    folder = tmp_path / "run"
    process = start("train", *LONG, "--out", folder)
    moments = random.Random(0)
    kills = 0
    for _ in range(pytestconfig.getoption("--n")):
        seen = [file.name for file in folder.glob("checkpoint-*.safetensors")]
        wait_for_checkpoint(folder, process, after=seen)
        time.sleep(moments.uniform(0, 0.5))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        process = start("resume", folder, "--checkpoint-seconds", "0.3")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert kills >= 2, "the run ended before it could be killed: make it longer"
    assert mac.Run.load(folder).digest == uninterrupted
    assert uninterrupted[:16] in output
    assert not list(folder.glob("*.damaged"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_says_how_to_resume(start, tmp_path, uninterrupted, number):
    folder = tmp_path / "run"
    process = start("train", *LONG, "--out", folder)
    wait_for_checkpoint(folder, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 128 + number
    last = errors.strip().splitlines()[-1]
    assert last == f"mac: interrupted; continue with: mac resume {folder}"
    assert "Traceback" not in errors
    run = mac.Run.load(folder)
    assert 0 < run.episodes_done.min() < 1500
    subprocess.run(command("resume", folder, "--quiet"), check=True, timeout=300)
    assert mac.Run.load(folder).digest == uninterrupted


def test_a_signal_before_the_first_segment_ends_at_once_and_loses_nothing(start, tmp_path):
    folder = tmp_path / "run"
    fresh_cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}  # so that there is a compilation to interrupt
    process = start("train", *LONG, "--out", folder, env=fresh_cache)
    lines = [process.stderr.readline()]
    while str(folder) not in lines[-1] and process.poll() is None:
        lines.append(process.stderr.readline())
    assert lines[0].startswith("CartPole-v0: mac by the episodic learner; compiled engine; 12 trials of 1_500 episodes")
    assert "run folder" in lines[-1]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 130
    assert f"mac resume {folder}" in errors
    assert mac.Run.load(folder).episodes_done.max() == 0


def test_a_second_signal_ends_at_once(start, tmp_path):
    folder = tmp_path / "run"
    process = start("train", *LONG, "--out", folder)
    wait_for_checkpoint(folder, process)
    for _ in range(200):  # the first is remembered until the segment ends; the second is not waited for
        process.send_signal(signal.SIGTERM)
        if process.poll() is not None:
            break
        time.sleep(0.005)
    process.communicate(timeout=LONGEST_WAIT)
    # a shell calls both 143: by our exit, or by the signal itself, if the first had already led us out of our handlers
    assert process.returncode in (143, -signal.SIGTERM)
    assert mac.Run.load(folder).digest  # whatever was being written, the folder can be read


def test_python_gets_a_keyboard_interrupt(tmp_path):
    def interrupt(progress):
        if progress.done >= 20:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)  # Python's own, unless it was started in the background
    with pytest.raises(KeyboardInterrupt, match="mac resume"):
        mac.train("CartPole-v0", trials=2, episodes=300, out=tmp_path / "run", on_progress=interrupt, **SMALL)
    assert signal.getsignal(signal.SIGINT) is before
    assert not mac.Run.load(tmp_path / "run").finished
    run = mac.resume(tmp_path / "run")
    assert run.finished
    whole = mac.train("CartPole-v0", trials=2, episodes=300, out=tmp_path / "whole", **SMALL)
    assert run.digest == whole.digest


def test_a_study_that_takes_long_to_begin_is_not_waited_for_and_closed_in_the_end(tmp_path, monkeypatch):
    released, closed = threading.Event(), threading.Event()

    class Slow(CompiledStudy):
        def __init__(self, *arguments, **more):
            os.kill(os.getpid(), signal.SIGINT)
            assert released.wait(60)
            super().__init__(*arguments, **more)

        def close(self):
            super().close()
            closed.set()

    monkeypatch.setattr(study, "CompiledStudy", Slow)
    with pytest.raises(KeyboardInterrupt, match="mac resume"):
        mac.train("CartPole-v0", trials=2, episodes=50, out=tmp_path / "run", **SMALL)
    assert not closed.is_set()
    released.set()
    assert closed.wait(60)


def test_a_segment_that_outlasts_our_patience_is_given_up_for_the_last_checkpoint(tmp_path, monkeypatch):
    advance, released, segments = CompiledStudy.advance, threading.Event(), []

    def slow_from_the_third(study):
        segments.append(study)
        if len(segments) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            released.wait(60)
        return advance(study)

    monkeypatch.setattr(CompiledStudy, "advance", slow_from_the_third)
    monkeypatch.setattr(loop, "PATIENCE_SECONDS", 0.5)
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt, match="mac resume"):
        mac.train("CartPole-v0", trials=2, episodes=50, out=path, checkpoint_seconds=3600, **SMALL)
    assert not released.is_set()
    released.set()
    monkeypatch.undo()
    assert mac.Run.load(path).episodes_done.max() == 0  # no checkpoint was due yet
    whole = mac.train("CartPole-v0", trials=2, episodes=50, out=tmp_path / "whole", **SMALL)
    assert mac.resume(path).digest == whole.digest


def test_a_resume_on_another_machine_warns(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_processor", lambda: "some other CPU")
    path = tmp_path / "run"
    mac.train("CartPole-v0", trials=2, episodes=2, out=path, **SMALL)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="low bits.* some other CPU"):
        assert mac.resume(path).finished


def test_a_signal_in_the_last_segment_is_not_lost(tmp_path):
    def interrupt(progress):
        if progress.done == progress.total:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt, match="is finished") as caught:
        mac.train("CartPole-v0", trials=2, episodes=4, out=tmp_path / "run", on_progress=interrupt, **SMALL)
    assert caught.value.signal_number == signal.SIGTERM
    assert mac.Run.load(tmp_path / "run").finished


def lanes(run):
    """Everything that was learned, by trial."""
    return store.read_checkpoint(run.path, run.manifest).arrays


@pytest.mark.optimised
def test_a_trial_does_not_change_with_its_neighbours(tmp_path):
    rates = np.array([0.005, 0.01, 0.02, 0.005, 0.01])
    others = np.array([0.005, 0.09, 0.02, 0.0, 0.7])
    run, other = (
        mac.train("CartPole-v0", trials=5, episodes=40, out=tmp_path / name, actor_lr=list(actor_lr), **SMALL)
        for name, actor_lr in (("a", rates), ("b", others))
    )
    same = rates == others
    for name, array in lanes(run).items():
        assert np.array_equal(array[same], lanes(other)[name][same]), name
    assert not np.array_equal(run.returns[~same], other.returns[~same])


DIVERGING = [
    *(("actor_lr", name, "adam") for name in EPISODIC),
    ("critic_lr", "mac", "adam"),
    *(
        ("critic_lr" if place % 2 else "actor_lr", "mac", name)
        for place, name in enumerate(OPTIMIZERS)
        if name != "adam"
    ),
]


@pytest.mark.parametrize(("setting", "algorithm", "optimizer"), DIVERGING)
def test_exactly_the_diverging_trials_are_marked_and_the_others_untouched(tmp_path, setting, algorithm, optimizer):
    rates = [0.005, 1e6, 0.005, 0.01, 1e6, 0.02]
    wild = np.array(rates) == 1e6
    tame = [0.01 if rate == 1e6 else rate for rate in rates]
    settings = {"optimizer": optimizer, **(SMALL if "critic" in ALGORITHMS[algorithm].parts else {"hidden": (16,)})}
    run, calm = (
        mac.train("CartPole-v0", algorithm, trials=6, episodes=30, out=tmp_path / name, **{setting: lr}, **settings)
        for name, lr in (("wild", rates), ("calm", tame))
    )
    assert np.array_equal(run.diverged_at > 0, wild)
    assert not calm.diverged_at.any()
    assert [status.startswith("diverged at episode") for status in run.status] == list(wild)
    assert np.all(np.isfinite(run.returns))
    assert run.finished
    for name, array in lanes(run).items():
        assert np.array_equal(array[~wild], lanes(calm)[name][~wild]), name
    for trial in np.flatnonzero(wild):  # frozen at its last finite weights
        assert np.all(np.isfinite(run.agent(trial).policy[0].weight))


def test_sweeping_a_number_does_not_recompile(tmp_path, caplog):
    jax.config.update("jax_log_compiles", True)  # for all threads, unlike jax.log_compiles()
    numbers = {"actor_lr": (0.1, 0.2), "critic_lr": (0.3, 0.4), "discount": (0.5, 0.6)}
    compilations = []
    for i in range(2):
        one = {name: pair[i] for name, pair in numbers.items()}
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            mac.train(
                "CartPole-v0", trials=2, episodes=5, seed=i, out=tmp_path / str(i), max_episode_steps=30, **one, **SMALL
            )
        compilations.append(sum(message.startswith("Compiling jit(_advance)") for message in caplog.messages))
    jax.config.update("jax_log_compiles", False)
    assert compilations == [1, 0]


def test_numpy_s_numbers_are_as_good_as_python_s(tmp_path):
    settings = {name: np.asarray(value)[()] for name, value in SMALL.items()}
    run = mac.train(
        "CartPole-v0", trials=np.int64(2), episodes=np.int32(3), seed=np.uint8(0), out=tmp_path / "run",
        actor_lr=np.array([0.02, 0.02]), critic_lr=np.float64(0.02), **settings,
    )  # fmt: skip
    best = np.argmax(run.returns.mean(axis=1))
    assert run.agent(best).trial == best
    plain = {"actor_lr": 0.02, "critic_lr": 0.02, **SMALL}
    assert mac.train("CartPole-v0", trials=2, episodes=3, out=tmp_path / "same", **plain).digest == run.digest

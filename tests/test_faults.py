"""Environments that fail, and processes that are killed: one true line, nothing lost, nobody left behind."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import faulty
import helpers
import mean_actor_critic as mac
from helpers import BESIDE_TESTS, LONGEST_WAIT, is_running, wait_until
from mean_actor_critic import machine
from mean_actor_critic.engines import hosted, hosted_study
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted import fleet, worker
from mean_actor_critic.environments.hosted.factory import Factory
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import EnvironmentFault, MacError

pytestmark = pytest.mark.slow

SIZE = {"trials": 3, "episodes": 6}
SIZE_WORDS = ("--trials", "3", "--episodes", "6", "--workers", "2", "--max-episode-steps", "20", "--set", "hidden=8",
              "minibatches=2", "batch_size=4", "replay_capacity=16")  # fmt: skip
TRIAL, EPISODE = 1, 3
HERE = {"at_seed": reset_seed(0, TRIAL, EPISODE - 1)}
PLACE = f"faulty:make: trial {TRIAL}, episode {EPISODE}, "


def train(path, workers=2, step_seconds=60.0, **kwargs):
    return mac.train(
        faulty.make, env_kwargs=kwargs, workers=workers, step_seconds=step_seconds, out=path, **SIZE, **helpers.TINY
    )


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """What training without faults comes to."""
    return train(tmp_path_factory.mktemp("healthy") / "run")


# --- who is there ----------------------------------------------------------------------------------------------------


def workers_of(parent):
    """Process ids of the workers that a process has started and that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            owner = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if owner == parent and b"environments.hosted.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            pass
    return found


@pytest.fixture(autouse=True)
def _nobody_is_left():
    """After every test."""
    yield
    assert workers_of(os.getpid()) == []


# --- what goes wrong, and what is said -------------------------------------------------------------------------------


def fault_of(path, **kwargs):
    """The one line of a run that must fail, up to the advice; what was played before the fault must be there."""
    with helpers.at_most(), pytest.raises(EnvironmentFault) as caught:
        train(path, **{**HERE, **kwargs})
    assert workers_of(os.getpid()) == []
    line = str(caught.value)
    helpers.assert_one_line(line)
    fault, advice = line.split("; whole episodes are kept; ")
    assert advice == f"continue with: mac resume {path} --env faulty:make"
    return fault


RAISED = rf"raised RuntimeError: the wheels came off \({re.escape(faulty.__file__)}:\d+\)"
IN_STEP = {
    "raise in step": rf"step\(\) {RAISED}",
    "raise in lines in step": rf"step\(\) {RAISED}",
    "NaN observation": "observation is nan at index 2 of 3",
    "short observation": r"observation has shape \(2,\), not \(3,\)",
    "complex observation": "observation has dtype complex128, not float32",
    "NaN reward": "reward is float nan, not a finite number in float32",
    "terminated yes": "terminated is str 'yes', not true or false",
    "four values": r"step\(\) returned tuple .*, not \(observation, reward, terminated, truncated, info\)",
    "kill in step": "worker process was killed by SIGKILL",
    "exit in step": "worker process ended with code 3",
    "crash in step": "worker process was killed by SIGSEGV",
}
IN_RESET = {
    "raise in reset": rf"reset\(\) {RAISED}",
    "observation alone": r"reset\(\) returned ndarray .*, not \(observation, info\)",
    "other observation space": r"observation_space has changed from .*\[3\].* to .*\[4\].*",
    "other action space": r"action_space has changed from .*'n': 2.* to .*'n': 3.*",
}
ODD_ANSWERS = {
    "observation in a batch": r"observation has shape \(1, 3\), not \(3,\)",
    "two observations": r"observation has shape \(2, 3\), not \(3,\)",
    "ragged observation": "observation is not an array of numbers",
    "observation of objects": "observation has dtype object, not float32",
    "no observation": "observation has dtype object, not float32",
    "unspeakable observation": "observation .*no words",
    "infinite reward": "reward is float -inf, not a finite number in float32",
    "reward beyond float32": r"reward is float 1e\+300, not a finite number in float32",
    "reward beyond float64": "reward is int 10*…, not a number",
    "no reward": "reward is NoneType None, not a number",
    "reward in words": "reward is str '1.0', not a number",
    "unspeakable reward": "reward is Unspeakable, not a number",
    "terminated twice": r"terminated is ndarray array\(\[ True, False\]\), not true or false",
    "unspeakable terminated": "terminated is Unspeakable, not true or false",
    "truncated yes": "truncated is str 'yes', not true or false",
    "no answer": r"step\(\) returned NoneType None, not \(observation, reward, terminated, truncated, info\)",
    "unusable action space": r"action_space has changed to Box .*, which cannot be used",
    "no observation space": "observation_space has changed to NoneType None, which cannot be used",
}


@pytest.mark.parametrize("fault", IN_STEP)
def test_a_fault_in_a_step_is_named_truly_and_whole_episodes_are_kept(tmp_path, healthy, fault):
    assert re.fullmatch(PLACE + "step 2: " + IN_STEP[fault], fault_of(tmp_path / "run", fault=fault))
    kept_what_was_played(tmp_path / "run", healthy)


@pytest.mark.parametrize("fault", IN_RESET)
def test_a_fault_in_a_reset_is_named_truly_and_whole_episodes_are_kept(tmp_path, healthy, fault):
    assert re.fullmatch(PLACE + "reset: " + IN_RESET[fault], fault_of(tmp_path / "run", fault=fault))
    kept_what_was_played(tmp_path / "run", healthy)


@pytest.mark.parametrize("fault", ODD_ANSWERS)
def test_odd_answers_are_faults_too(fault):
    """In this process, which is quicker."""
    spaces = Spaces(faulty.make().observation_space, faulty.make().action_space)
    size = boards.Size(lanes=1, time=20, observation=3, workers=1)
    with fleet._shared_file() as memory:
        memory.truncate(boards.bytes_of(size))
        board = boards.board_on(memory.fileno(), size)
    lane = worker._Lane(0, Factory(faulty.make, {"fault": fault}), spaces, board, limit=20)

    def play():
        lane.reset()
        lane.step(0)
        lane.step(1)

    with pytest.raises(worker.Fault) as caught:
        play()
    assert re.fullmatch(ODD_ANSWERS[fault], str(caught.value))


def kept_what_was_played(path, healthy):
    run = mac.Run.load(path)
    assert run.episodes_done[TRIAL] == EPISODE - 1
    assert all(run.episodes_done >= EPISODE - 1)
    assert np.array_equal(run.returns[:, : EPISODE - 1], healthy.returns[:, : EPISODE - 1])


@pytest.mark.parametrize("deed", ["hang", "hold the interpreter"])
@pytest.mark.parametrize(("place", "where"), [("step", "step 2: step()"), ("reset", "reset: reset()")])
def test_an_environment_may_take_step_seconds_for_a_step(tmp_path, healthy, deed, place, where):
    line = fault_of(tmp_path / "run", step_seconds=1.0, fault=f"{deed} in {place}")
    assert line == PLACE + where + " took more than 1 s"
    kept_what_was_played(tmp_path / "run", healthy)


def test_a_hang_is_noticed_while_other_workers_play_on(tmp_path):
    at_once = reset_seed(0, 0, 0)
    with helpers.at_most(), pytest.raises(EnvironmentFault, match=r"trial 0, episode 1, step 2: .* more than 1 s"):
        mac.train(  # 8 trials of the other worker can learn without those of the stuck one
            faulty.make, trials=16, episodes=100_000, workers=2, step_seconds=1.0, out=tmp_path / "run",
            env_kwargs={"fault": "hang in step", "at_seed": at_once}, **helpers.TINY,
        )  # fmt: skip


def test_a_leak_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "SHARE_OF_MEMORY", 2 * 0.3e9 / machine.memory_bytes())
    line = fault_of(tmp_path / "run", fault="hoard in step")
    grown = r"memory of its worker process has grown to 0\.[3-6]\d GB; allowed are 0\.30"
    assert re.fullmatch(PLACE + r"step \d+: " + grown, line)


def test_what_an_environment_started_ends_with_it(tmp_path):
    note = tmp_path / "child"
    fault_of(tmp_path / "run", fault="raise as a parent in step", note=str(note))
    wait_until(lambda: not is_running(int(note.read_text())))


def test_a_dead_worker_is_noticed_though_a_fork_of_it_holds_its_pipes(tmp_path):
    note = tmp_path / "child"
    line = fault_of(tmp_path / "run", fault="fork and be killed in step", note=str(note))
    assert line == PLACE + "step 2: worker process was killed by SIGKILL"
    wait_until(lambda: not is_running(int(note.read_text())))


@pytest.mark.parametrize("deed", ["hang", "raise", "crash", "fork"])
def test_an_environment_that_does_not_close_is_left_alone(tmp_path, healthy, deed, capfd):
    with helpers.at_most():
        assert train(tmp_path / "run", fault=f"{deed} in close").digest == healthy.digest
    assert "Traceback" not in capfd.readouterr().err


def test_an_environment_that_can_be_made_only_once_is_a_fault(tmp_path):
    with helpers.at_most(), pytest.raises(EnvironmentFault, match="episode 1, reset: environment cannot be made: Ru"):
        train(tmp_path / "run", fault="raise in later construction", once=str(tmp_path / "made"))


def test_an_environment_that_takes_too_long_to_be_made_again_is_a_fault(tmp_path):
    with helpers.at_most(), pytest.raises(EnvironmentFault, match=r"episode 1, reset: .* took more than 1 s"):
        train(tmp_path / "run", step_seconds=1.0, fault="hang in later construction", once=str(tmp_path / "made"))


CANNOT_BE_MADE = {
    "raise in construction": "cannot be used; allowed: one that can be made here; RuntimeError: the wheels came off",
    "raise in lines in construction": "allowed: one that can be made here; RuntimeError: the wheels came off",
    "hang in construction": "could not be looked at: .* was silent for 5 s",
    "hold the interpreter in construction": "could not be looked at: .* was silent for 5 s",
    "kill in construction": "could not be looked at: .* was killed by SIGKILL",
    "crash in construction": "could not be looked at: .* was killed by SIGSEGV",
}


@pytest.mark.parametrize("fault", CANNOT_BE_MADE)
def test_an_environment_that_cannot_be_made_is_refused_before_anything_is_written(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(fleet, "START_SECONDS", 5.0)
    with helpers.at_most(), pytest.raises(MacError, match=CANNOT_BE_MADE[fault]) as caught:
        train(tmp_path / "run", fault=fault, step_seconds=5.0)
    helpers.assert_one_line(str(caught.value))
    assert "faulty:make" in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_evaluation_meets_faults_in_the_same_way(tmp_path):
    seed = reset_seed(0, TRIAL, EPISODE - 1, evaluation=True)
    run = train(tmp_path / "run", fault="NaN reward", at_seed=seed)
    with helpers.at_most(), pytest.raises(EnvironmentFault) as caught:
        mac.evaluate(run, 6, environment="faulty:make", workers=2)
    assert str(caught.value) == PLACE + "step 2: reward is float nan, not a finite number in float32"
    assert workers_of(os.getpid()) == []


# --- going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["raise in step", "kill in step", "hang in step", "NaN observation"])
def test_a_run_whose_environment_has_been_mended_goes_on_to_the_same_bits(tmp_path, healthy, fault):
    fault_of(tmp_path / "run", fault=fault, once=str(tmp_path / "happened"), step_seconds=1.0)
    assert mac.resume(tmp_path / "run", "faulty:make", workers=2).digest == healthy.digest


FAILING = {  # a function, which of its calls fails, and how many episodes there are to keep at least
    "a lesson": (hosted_study.HostedStudy, "_teach", 5, 4),
    "what follows a lesson": (hosted.Players, "replace", 5, 5),
    "acting": (hosted.Players, "_actions", 20, 3),
    "noting an end": (hosted_study.HostedStudy, "_end_episode", 5, 4),
}


@pytest.mark.parametrize("place", FAILING)
def test_whatever_else_fails_whole_episodes_are_kept(tmp_path, healthy, monkeypatch, place):
    """What is none of an environment's faults, but a learner's of the user's own, the machine's, or ours."""
    whose, name, failing, kept = FAILING[place]
    call, calls = getattr(whose, name), []

    def fail(*arguments):
        calls.append(1)
        if len(calls) == failing:
            raise ZeroDivisionError
        return call(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(whose, name, fail)
        with helpers.at_most(), pytest.raises(ZeroDivisionError):
            train(tmp_path / "run", workers=1)
    run = mac.Run.load(tmp_path / "run")
    assert kept <= run.episodes_done.sum() < SIZE["trials"] * SIZE["episodes"]
    assert mac.resume(run, "faulty:make", workers=2).digest == healthy.digest


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(tmp_path, healthy, workers):
    assert train(tmp_path / "run", workers=workers).digest == healthy.digest


def test_trials_that_have_finished_are_kept_when_another_fails(tmp_path, healthy):
    late = {"at_seed": reset_seed(0, TRIAL, 5), "at_step": 15}  # one worker: the others are over before it
    line = fault_of(tmp_path / "run", fault="raise in step", workers=1, **late)
    assert line.startswith(f"faulty:make: trial {TRIAL}, episode 6, step 15: ")
    run = mac.Run.load(tmp_path / "run")
    assert run.status == ["finished", "episode 5", "finished"]
    assert np.array_equal(run.returns[[0, 2]], healthy.returns[[0, 2]])


# --- the command line ------------------------------------------------------------------------------------------------


def command(*words, **kwargs):
    """Words of `mac`, and keyword arguments for the environment."""
    named = [f"{name}={json.dumps(value)}" for name, value in kwargs.items()]
    return [*words, *(["--env-kwargs", *named] if named else [])]


def mac_train(path, *words, **kwargs):
    return helpers.run_mac(
        *command("train", "faulty:make", "--out", path, *words, *SIZE_WORDS, **kwargs), env=BESIDE_TESTS
    )


def test_the_command_line_ends_with_the_one_line(tmp_path):
    outcome = mac_train(tmp_path / "run", "--step-seconds", "1", fault="hang in step", **HERE)
    assert outcome.code == 1
    assert outcome.out == ""
    kept = f"whole episodes are kept; continue with: mac resume {tmp_path}/run --env faulty:make"
    assert outcome.err.splitlines()[-1] == f"mac: {PLACE}step 2: step() took more than 1 s; {kept}"
    assert "Traceback" not in outcome.err


def test_the_command_line_refuses_what_cannot_be_made(tmp_path):
    outcome = mac_train(tmp_path / "run", fault="raise in lines in construction")
    helpers.assert_refused(outcome, 2, "faulty:make", "RuntimeError: the wheels came")
    assert outcome.out == ""


def test_what_environments_print_stays_out_of_the_results(tmp_path, healthy):
    outcome = mac_train(tmp_path / "run", fault="print in step")
    assert outcome.code == 0, outcome.err
    assert "chatter" not in outcome.out
    assert healthy.digest[:16] in outcome.out
    said = [line for line in outcome.err.splitlines() if line.startswith("environment: ")]
    assert "environment: chatter 0" in said
    assert len(said) <= 2 * 11


def test_a_line_without_an_end_is_cut(tmp_path, healthy, capfd):
    assert train(tmp_path / "run", fault="print a long line in step").digest == healthy.digest
    said = capfd.readouterr().err
    assert "environment: chatter" in said
    assert len(said) < 100_000


# --- killed from outside ---------------------------------------------------------------------------------------------

# some seconds of training
LONG = ["train", "Acrobot-v1", "--engine", "hosted", "--trials", "4", "--episodes", "30", "--max-episode-steps", "50",
        "--workers", "2", "--checkpoint-seconds", "0.2", "--set", "hidden=16", "minibatches=4", "batch_size=8",
        "replay_capacity=300"]  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert helpers.mac(*LONG, "--quiet", "--out", folder).code == 0
    return mac.Run.load(folder).digest


@pytest.fixture
def long_run(start, tmp_path):
    """The process of a long run that has written its first checkpoint."""
    folder = tmp_path / "run"
    process = start(*LONG, "--out", folder)
    wait_until(lambda: process.poll() is not None or list(folder.glob("checkpoint-*.safetensors")))
    assert process.poll() is None, process.communicate()
    return process


def goes_on_to(folder, digest):
    assert not mac.Run.load(folder).finished, "the run ended before it could be killed: make it longer"
    assert helpers.mac("resume", folder, "--quiet").code == 0
    return mac.Run.load(folder).digest == digest


def test_a_killed_worker_ends_the_run_which_resumes_to_the_same_bits(long_run, tmp_path, uninterrupted):
    workers = workers_of(long_run.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    _, errors = long_run.communicate(timeout=LONGEST_WAIT)
    assert long_run.returncode == 1
    last = errors.splitlines()[-1]
    assert last.startswith("mac: Acrobot-v1: ")
    assert "worker process was killed by SIGKILL; whole episodes are kept" in last
    assert not any(map(is_running, workers))
    assert goes_on_to(tmp_path / "run", uninterrupted)


def test_the_main_process_killed_leaves_no_worker_and_resumes_to_the_same_bits(long_run, tmp_path, uninterrupted):
    workers = workers_of(long_run.pid)
    long_run.kill()
    long_run.communicate()
    wait_until(lambda: not any(map(is_running, workers)))
    assert len(workers) == 2
    assert goes_on_to(tmp_path / "run", uninterrupted)


def test_a_signal_ends_the_workers_and_resumes_to_the_same_bits(long_run, tmp_path, uninterrupted):
    workers = workers_of(long_run.pid)
    long_run.send_signal(signal.SIGINT)
    _, errors = long_run.communicate(timeout=LONGEST_WAIT)
    assert long_run.returncode == 130
    assert errors.splitlines()[-1] == f"mac: interrupted; continue with: mac resume {tmp_path}/run"
    assert len(workers) == 2
    assert not any(map(is_running, workers))
    assert goes_on_to(tmp_path / "run", uninterrupted)


IMPATIENT = """
import sys
from mean_actor_critic.cli.main import main
from mean_actor_critic.runs import loop
loop.PATIENCE_SECONDS = 1.0
main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("deed", ["hang", "hold the interpreter"])
def test_no_worker_outlives_the_main_process_though_its_environment_hangs(tmp_path, deed, number):
    note = tmp_path / "note"
    words = command("train", "faulty:make", "--out", tmp_path / "run", *SIZE_WORDS, fault=f"{deed} in step",
                    note=str(note), **HERE)  # fmt: skip
    with helpers.running([sys.executable, "-c", IMPATIENT, *map(str, words)], env=BESIDE_TESTS) as process:
        wait_until(lambda: process.poll() is not None or note.exists())
        workers = workers_of(process.pid)
        process.send_signal(number)
        process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    wait_until(lambda: not any(map(is_running, workers)))
    assert len(workers) == 2

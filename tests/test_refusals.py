"""What the command line refuses: in one line, with nothing left behind and nothing of the user's executed."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

import mean_actor_critic
from helpers import (
    TINY_WORDS,
    assert_one_line,
    assert_refused,
    failing_fsync,
    forge_arrays,
    forge_manifest,
    mac,
    message_of,
    only_begun,
    pickle_that_makes,
    run_mac,
    run_python,
    snapshot,
)
from mean_actor_critic.errors import LONGEST_VALUE, InputError, MissingFileError
from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.run import Run

pytestmark = pytest.mark.usefixtures("in_tmp_path")

# --- what cannot be used ---------------------------------------------------------------------------------------------

TRAIN = ("train", "CartPole-v0")
LONG = "x" * 300
WHOLE = "a whole number from"
# words of the command, and words that its one line must have: the field, the value, what is allowed
BAD_INPUT = {
    "no command": ((), ("COMMAND",)),
    "an unknown command": (("trian",), ("COMMAND", "'trian'", "train")),
    "an unknown option": ((*TRAIN, "--trails", "3"), ("--trails", "did you mean --trials?")),
    "an option that nothing is like": ((*TRAIN, "--zzz", "3"), ("mac train: unrecognized arguments: --zzz 3",)),
    "an option of two lines": ((*TRAIN, "--z\nz"), ("--z z",)),
    "an option for the discount": ((*TRAIN, "--gamma", "0.9"), ("--gamma", "--set discount=")),
    "an option for the learning rate": ((*TRAIN, "--lr", "0.9"), ("--lr", "actor_lr and critic_lr", "--set")),
    "an option for one learning rate": (
        (*TRAIN, "--learning-rate", "0.9", "--preset", "tuned"),
        ("--learning-rate", "actor_lr and critic_lr", "--set"),
    ),
    "an option for the general learner's learning rate": (
        (*TRAIN, "--learning-rate", "0.9"),
        ("--learning-rate", "--set learning_rate=…"),
    ),
    "an option for the learning rate of games": (
        ("train", "ALE/Pong-v5", "--learning-rate=0.9"),
        ("--learning-rate", "--set learning_rate="),
    ),
    "an option for the steps": ((*TRAIN, "--total-timesteps", "9"), ("--total-timesteps", "(--steps)")),
    "an option for environments": ((*TRAIN, "--n-envs", "9"), ("--n-envs", "environments, for learners with several")),
    "another option for environments": (("train", "ALE/Pong-v5", "--num-envs", "9"), ("environments", "--set")),
    "an option for trials": ((*TRAIN, "--seeds", "9"), ("--seeds", "(--trials)")),
    "an option for the environment": (("train", "--env", "CartPole-v0"), ("--env", "the first argument")),
    "a setting as an option": ((*TRAIN, "--batch-size", "9"), ("--batch-size", "--set batch_size=")),
    "an option of training where nothing is trained": (
        ("evaluate", "run", "--gamma", "0.9"),
        ("mac evaluate: unrecognized arguments: --gamma 0.9",),
    ),
    "a setting by another library's name": ((*TRAIN, "--set", "gamma=0.9"), ("setting", "'gamma'", "discount")),
    "steps and episodes": ((*TRAIN, "--steps", "9", "--episodes", "9"), ("--episodes", "not allowed with", "--steps")),
    "episodes of a game": (("train", "ALE/Pong-v5", "--episodes", "9"), ("episodes: 9", "steps")),
    "no time at all": ((*TRAIN, "--steps", "0"), ("steps: 0", WHOLE)),
    "no number to end at": ((*TRAIN, "--until", "nan"), ("until: nan", "a number")),
    "evaluations less than never": ((*TRAIN, "--evaluate-every", "-1"), ("evaluation_interval: -1", WHOLE)),
    "an unknown learner": ((*TRAIN, "--learner", "episodc"), ("learner", "'episodc'", "did you mean episodic?")),
    "the learner of another engine": (
        ("train", "ALE/Pong-v5", "--learner", "episodic"),
        ("learner", "'episodic'", "rollout"),
    ),
    "an algorithm of another engine": (
        ("train", "ALE/Pong-v5", "--algorithm", "reinforce"),
        ("algorithm", "'reinforce'", "by the learner rollout"),
    ),
    "a protocol without a game": ((*TRAIN, "--protocol", "machado"), ("protocol", "'machado'", "Atari")),
    "a preset with a game": (("train", "ALE/Pong-v5", "--preset", "paper"), ("preset", "'paper'", "protocol")),
    "snapshots of a game": (("train", "ALE/Pong-v5", "--snapshots", "2"), ("snapshots", "episodes")),
    "keyword arguments for a game": (("train", "ALE/Pong-v5", "--env-kwargs", "a=1"), ("env_kwargs", "settings")),
    "a time limit in steps for a game": (
        ("train", "ALE/Pong-v5", "--max-episode-steps", "9"),
        ("max_episode_steps: 9", "max_episode_frames"),
    ),
    "a game by the compiled engine": (("train", "ALE/Pong-v5", "--engine", "compiled"), ("engine", "atari for")),
    "Cart Pole by the engine of games": ((*TRAIN, "--engine", "atari"), ("'CartPole-v0'", "an Atari game")),
    "checking a game with a time limit": (("check", "ALE/Pong-v5", "--max-episode-steps", "9"), ("settings",)),
    "searching a game": (("sweep", "ALE/Pong-v5"), ("task", "'ALE/Pong-v5'", "too long to search")),
    "resuming with another unit": (("resume", "run", "--steps", "9"), ("steps: 9", "episodes, which this run counts")),
    "resuming with less": (("resume", "run", "--episodes", "2"), ("episodes: 2", "more than the run has, 3 episodes")),
    "reproducing Cart Pole by steps": (("reproduce", "cart-pole", "--steps", "9"), ("--steps", "mac reproduce atari")),
    "reproducing Cart Pole with settings": (
        ("reproduce", "cart-pole", "--set", "noop_max=9"),
        ("--set: 'noop_max=9'", "mac reproduce atari"),
    ),
    "reproducing games by episodes": (("reproduce", "atari", "--episodes", "9"), ("--episodes: 9", "--steps")),
    "reproducing another game": (("reproduce", "atari", "--game", "pnog"), ("--game", "'pnog'", "did you mean pong?")),
    "reproducing games with another algorithm": (
        ("reproduce", "atari", "--algorithm", "reinforce", "--trials", "1"),
        ("algorithm", "'reinforce'", "a2c"),
    ),
    "no environment": (("train",), ("ENV",)),
    "an unknown environment": (("train", "CartPole-v9"), ("environment", "'CartPole-v9'", "did you mean CartPole-v1")),
    "an environment of two lines": (("train", "Cart\nPole"), ("environment", r"'Cart\nPole'", "a Gymnasium id")),
    "an environment of another package": (
        ("train", "os:Pole-v0"),
        ("environment", "'os:Pole-v0'", "no callable 'Pole-v0'", "registers no environment"),
    ),
    "an environment of a package that is not there": (
        ("train", "no_such_package:Pole-v0"),
        ("environment", "'no_such_package:Pole-v0'", "there is no 'no_such_package'"),
    ),
    "continuous actions": (("train", "Pendulum-v1"), ("environment", "'Pendulum-v1'", "Discrete", "Box")),
    "an environment of the hosted engine": (
        ("train", "Blackjack-v1", "--engine", "compiled"),
        ("engine", "'compiled'", "hosted for Blackjack-v1", "CartPole-v0"),
    ),
    "an unknown engine": ((*TRAIN, "--engine", "warp"), ("--engine", "'warp'", "compiled", "hosted")),
    "keyword arguments for a compiled environment": (
        (*TRAIN, "--engine", "compiled", "--env-kwargs", "sutton_barto_reward=true"),
        ("engine", "'compiled'", "hosted"),
    ),
    "a keyword argument without a value": ((*TRAIN, "--env-kwargs", "gravity"), ("--env-kwargs", "'gravity'", "name=")),
    "a keyword argument that is no name": ((*TRAIN, "--env-kwargs", "a-b=1"), ("--env-kwargs", "'a-b=1'", "name=")),
    "a keyword argument that is not a number": ((*TRAIN, "--env-kwargs", "gravity=NaN"), ("env_kwargs", "numbers")),
    "a keyword argument that the environment does not take": (
        (*TRAIN, "--env-kwargs", "colour=1"),
        ("environment", "'CartPole-v0'", "colour"),
    ),
    "no workers": ((*TRAIN, "--workers", "0"), ("workers: 0", WHOLE)),
    "too many workers": ((*TRAIN, "--workers", "1025"), ("workers: 1025", WHOLE)),
    "half a worker": ((*TRAIN, "--workers", "0.5"), ("--workers", "'0.5'", "int")),
    "no time for a step": ((*TRAIN, "--step-seconds", "0"), ("step_seconds: 0", "above 0")),
    "no number of seconds for a step": ((*TRAIN, "--step-seconds", "nan"), ("step_seconds: nan", "above 0")),
    "endless time for a step": ((*TRAIN, "--step-seconds", "inf"), ("step_seconds: inf", "above 0")),
    "a negative first trial": ((*TRAIN, "--first-trial", "-1"), ("first_trial: -1", WHOLE)),
    "a first trial in words": ((*TRAIN, "--first-trial", "x"), ("--first-trial", "'x'", "int")),
    "an unknown algorithm": (
        (*TRAIN, "--algorithm", "reinforc"),
        ("algorithm", "'reinforc'", "advantage_reinforce", "did you mean reinforce?"),
    ),
    "no trials": ((*TRAIN, "--trials", "0"), ("trials: 0", WHOLE)),
    "negative trials": ((*TRAIN, "--trials", "-3"), ("trials: -3", WHOLE)),
    "too many trials": ((*TRAIN, "--trials", "100001"), ("trials: 100001", WHOLE)),
    "half a trial": ((*TRAIN, "--trials", "0.5"), ("--trials", "'0.5'", "int")),
    "trials in words": ((*TRAIN, "--trials", "ten"), ("--trials", "'ten'", "int")),
    "no episodes": ((*TRAIN, "--episodes", "0"), ("episodes: 0", WHOLE)),
    "negative episodes": ((*TRAIN, "--episodes", "-1"), ("episodes: -1", WHOLE)),
    "episodes in words": ((*TRAIN, "--episodes", "1e3"), ("--episodes", "'1e3'", "int")),
    "a negative seed": ((*TRAIN, "--seed", "-1"), ("seed: -1", WHOLE)),
    "a huge seed": ((*TRAIN, "--seed", "2147483648"), ("seed: 2147483648", WHOLE)),
    "a seed in words": ((*TRAIN, "--seed", "x"), ("--seed", "'x'", "int")),
    "a negative time between checkpoints": ((*TRAIN, "--checkpoint-seconds", "-1"), ("seconds", "-1")),
    "no number between checkpoints": ((*TRAIN, "--checkpoint-seconds", "nan"), ("seconds", "nan")),
    "an unknown setting": (
        (*TRAIN, "--set", "actr_lr=1"),
        ("setting", "'actr_lr'", "critic_lr", "did you mean actor_lr?"),
    ),
    "a setting without a value": ((*TRAIN, "--set", "actor_lr"), ("--set", "'actor_lr'", "name=value")),
    "an environment as a setting": ((*TRAIN, "--set", "environment=x"), ("setting", "'environment'", "hidden")),
    "a setting that is no number": ((*TRAIN, "--set", "actor_lr=big"), ("actor_lr: 'big'", "a number from 0")),
    "a setting that is not a number": ((*TRAIN, "--set", "actor_lr=nan"), ("actor_lr: nan", "a number from 0")),
    "a setting without end": ((*TRAIN, "--set", "actor_lr=inf"), ("actor_lr: inf", "a number from 0")),
    "a setting below its limits": ((*TRAIN, "--set", "discount=-0.1"), ("discount: -0.1", "from 0 to 1")),
    "a setting above its limits": ((*TRAIN, "--set", "discount=1.1"), ("discount: 1.1", "from 0 to 1")),
    "a setting for too few trials": (
        (*TRAIN, "--trials", "3", "--set", "actor_lr=1,2"),
        ("actor_lr: (1.0, 2.0)", "each of the 3 trials"),
    ),
    "a whole setting that is not": ((*TRAIN, "--set", "batch_size=1.5"), ("batch_size: '1.5'", WHOLE)),
    "a whole setting of zero": ((*TRAIN, "--set", "minibatches=0"), ("minibatches: 0", WHOLE)),
    "no steps": ((*TRAIN, "--set", "max_episode_steps=0"), ("max_episode_steps: 0", WHOLE)),
    "no steps by their own option": ((*TRAIN, "--max-episode-steps", "0"), ("max_episode_steps: 0", WHOLE)),
    "a switch that is neither": (
        (*TRAIN, "--set", "normalize_observations=1"),
        ("normalize_observations: '1'", "true or false"),
    ),
    "too many layers": ((*TRAIN, "--set", "hidden=1,2,3,4"), ("hidden: (1, 2, 3, 4)", "three widths")),
    "a layer of no units": ((*TRAIN, "--set", "hidden=0"), ("hidden: (0,)", "three widths")),
    "layers of two lines": ((*TRAIN, "--set", "hidden=8\n9x"), (r"hidden: '8\n9x'", "three widths")),
    "an unknown activation": ((*TRAIN, "--set", "activation=gelu"), ("activation: 'gelu'", "leaky_relu, tanh")),
    "an unknown optimizer": ((*TRAIN, "--set", "optimizer=lion"), ("optimizer: 'lion'", "adam")),
    "a setting of a critic that is not there": (
        (*TRAIN, "--algorithm", "reinforce", "--set", "critic_lr=1"),
        ("critic_lr: 1.0", "reinforce", "no critic"),
    ),
    "a setting of a baseline that is not there": (
        (*TRAIN, "--set", "baseline_decay=0.5"),
        ("baseline_decay: 0.5", "mac", "no baseline"),
    ),
    "a folder that cannot be made": ((*TRAIN, "--out", "/proc/x"), ("out: '/proc/x'", "a folder that can be made")),
    "a folder in use": ((*TRAIN, "--out", "run"), ("out: 'run'", "an empty or new folder", "mac resume run")),
    "a folder that is a file": ((*TRAIN, "--out", "agent.safetensors"), ("out: 'agent.safetensors'", "a folder")),
    "a folder below a file": ((*TRAIN, "--out", "agent.safetensors/x"), ("out: 'agent.safetensors/x'", "a folder")),
    "a folder with too long a name": ((*TRAIN, "--out", LONG), ("out", LONG, "a folder")),
    "resuming nothing": (("resume", "nothing"), ("run: 'nothing'", "a run folder")),
    "resuming a file": (("resume", "agent.safetensors"), ("run: 'agent.safetensors'", "a run folder")),
    "resuming too long a name": (("resume", LONG), ("run", LONG, "a run folder")),
    "listing nothing": (("runs", "nothing"), ("DIR: 'nothing'", "a folder")),
    "listing a file": (("runs", "agent.safetensors"), ("DIR: 'agent.safetensors'", "a folder")),
    "listing too long a name": (("runs", LONG), ("DIR", LONG, "a folder")),
    "evaluating nothing": (("evaluate", "nothing"), ("nothing: there is no such run folder or agent file",)),
    "evaluating too long a name": (("evaluate", LONG), (f"{LONG}: there is no such run folder",)),
    "watching nothing": (
        ("watch", "nothing", "--out", "v.mp4"),
        ("nothing: there is no such run folder or agent file",),
    ),
    "measuring nothing": (("gradients", "nothing"), ("nothing: there is no such run folder or agent file",)),
    "evaluating a folder of runs": (("evaluate", "."), ("run: '.'", "a run folder")),
    "evaluating a manifest": (("evaluate", "run/manifest.json"), ("run/manifest.json", "safetensors")),
    "evaluating Cart Pole by the rules of games": (("evaluate", "run", "--set", "noop_max=3"), ("settings", "Atari")),
    "evaluating no episodes": (("evaluate", "run", "--episodes", "0"), ("episodes: 0", WHOLE)),
    "evaluating negative episodes": (("evaluate", "run", "--episodes", "-5"), ("episodes: -5", WHOLE)),
    "evaluating more episodes than can be": (
        ("evaluate", "run", "--episodes", "99999999999"),
        ("episodes: 99999999999", WHOLE),
    ),
    "evaluating with a negative seed": (("evaluate", "run", "--seed", "-1"), ("seed: -1", WHOLE)),
    "evaluating with a huge seed": (("evaluate", "run", "--seed", "4294967296"), ("seed: 4294967296", WHOLE)),
    "evaluating a trial out of range": (("evaluate", "run", "--trial", "2"), ("trial: 2", "from 0 to 1")),
    "evaluating a negative trial": (("evaluate", "run", "--trial", "-1"), ("trial: -1", "from 0 to 1")),
    "evaluating a trial of an agent": (
        ("evaluate", "agent.safetensors", "--trial", "0"),
        ("--trial: 0", "nothing with an agent"),
    ),
    "exporting nothing": (("export", "nothing", "--out", "a.safetensors"), ("run: 'nothing'", "a run folder")),
    "exporting a trial out of range": (
        ("export", "run", "--trial", "2", "--out", "a.safetensors"),
        ("trial: 2", "from 0 to 1"),
    ),
    "exporting a negative trial": (
        ("export", "run", "--trial", "-1", "--out", "a.safetensors"),
        ("trial: -1", "from 0 to 1"),
    ),
    "exporting to another kind of file": (
        ("export", "run", "--out", "agent.pkl"),
        ("path: 'agent.pkl'", "ends in .safetensors"),
    ),
    "exporting without a name": (("export", "run"), ("--out",)),
    "reproducing another study": (("reproduce", "mujoco"), ("study", "'mujoco'", "cart-pole")),
    "reproducing no trials": (("reproduce", "cart-pole", "--trials", "0"), ("trials: 0", WHOLE)),
    "reproducing no episodes": (("reproduce", "cart-pole", "--episodes", "0"), ("episodes: 0", WHOLE)),
    "reproducing with a negative seed": (("reproduce", "cart-pole", "--seed", "-1"), ("seed: -1", WHOLE)),
    "reproducing with a seed of the search": (
        ("reproduce", "cart-pole", "--seed", str(2**30)),
        (f"seed: {2**30}", "below"),
    ),
}


@pytest.mark.parametrize(("command", "words"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(files, tmp_path, command, words):
    before = snapshot(tmp_path)
    assert_refused(mac(*command), 2, *words)
    assert snapshot(tmp_path) == before


def test_a_run_without_a_checkpoint_has_nothing_to_export_or_play(files):
    only_begun(files)
    assert_refused(mac("export", "run", "--out", "a.safetensors"), 2, "run: 'run'", "only begun")
    assert_refused(mac("evaluate", "run"), 2, "run: 'run'", "only begun")


def test_damaged_files_are_refused_in_one_line(files):
    files.checkpoint.write_bytes(files.checkpoint.read_bytes()[:-1])
    files.agent.write_bytes(b"")
    for words in (("resume", "run"), ("evaluate", "run"), ("export", "run", "--out", "a.safetensors")):
        assert_refused(mac(*words), 2, "run/checkpoint-000000000006.safetensors", "no earlier checkpoint is left")
    assert_refused(mac("evaluate", "agent.safetensors"), 2, "agent.safetensors", "damaged")
    files.manifest.write_bytes(b"{}")
    for words in (("resume", "run"), ("evaluate", "run"), ("export", "run", "--out", "a.safetensors")):
        assert_refused(mac(*words), 2, "run/manifest.json", "damaged")


def test_a_folder_that_another_process_writes_is_refused_with_its_number(files):
    only_begun(files)
    with store.sole_writer(files.run):
        assert_refused(mac("resume", "run"), 2, "run: is being written by process", str(os.getpid()))


@pytest.mark.parametrize("value", [np.zeros((3, 3)), "two\nlines", ["\r"]])
def test_a_value_of_several_lines_is_named_in_one(tmp_path, value):
    message_of(
        lambda: mean_actor_critic.train("CartPole-v0", trials=3, episodes=1, out=tmp_path / "run", actor_lr=value)
    )
    assert_one_line(str(InputError("actor_lr", value, "one line")))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("raised_by", ["numpy", "jax"])
def test_more_than_the_memory_holds_is_refused_in_one_line(tmp_path, monkeypatch, raised_by):
    import jax

    from mean_actor_critic.runs import loop

    def too_much(*_):
        if raised_by == "numpy":
            raise MemoryError("Unable to allocate 3.64 TiB for an array")
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 103083937412 bytes.")

    monkeypatch.setattr(loop, "make_study", too_much)
    assert_refused(mac(*TRAIN, "--out", tmp_path / "new", *TINY_WORDS, "--quiet"), 1, "memory")


# --- the same in real processes --------------------------------------------------------------------------------------


def test_a_process_refuses_a_setting_without_a_traceback(tmp_path):
    outcome = run_mac(*TRAIN, "--set", "actr_lr=1", cwd=tmp_path)
    assert_refused(outcome, 2, "'actr_lr'", "did you mean actor_lr?")
    assert outcome.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_process_refuses_an_environment_without_a_traceback(tmp_path):
    assert_refused(run_mac("train", "Pendulum-v1", cwd=tmp_path), 2, "'Pendulum-v1'", "Discrete")
    assert list(tmp_path.iterdir()) == []


def test_a_process_refuses_a_pickle_and_does_not_run_it(tmp_path):
    marker = tmp_path / "executed"
    (tmp_path / "agent.safetensors").write_bytes(pickle_that_makes(marker))
    assert_refused(run_mac("evaluate", "agent.safetensors", cwd=tmp_path), 2, "agent.safetensors", "damaged")
    assert not marker.exists()


def _names_a_program(experiment: dict, marker: Path) -> dict:
    """An experiment on an "environment" that is a callable of the standard library, with its arguments."""
    arguments = {"args": ["touch", str(marker)]}
    return {**experiment, "environment": "subprocess:run", "environment_kwargs": arguments, "engine": "hosted"}


def test_an_agent_file_that_names_a_program_as_its_environment_does_not_run_it(files, tmp_path):
    marker = tmp_path / "executed"
    experiment = _names_a_program(Agent.load(files.agent).experiment.to_json(), marker)
    forge_arrays(files.agent, words={"experiment": json.dumps(experiment)})
    assert_refused(mac("evaluate", "agent.safetensors", "--episodes", "1"), 2, "subprocess:run")
    assert not marker.exists()


def test_a_manifest_that_names_a_program_as_its_environment_does_not_run_it(files, tmp_path):
    marker = tmp_path / "executed"
    only_begun(files)
    forge_manifest(files, lambda document: document.update(experiment=_names_a_program(document["experiment"], marker)))
    assert_refused(mac("resume", "run"), 2, "subprocess:run")
    assert not marker.exists()


def test_an_old_environment_is_refused_without_further_warnings():
    script = """
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.errors import InputError
try:
    find_environment("Ant-v4")
except InputError:
    print("refused")
"""
    outcome = run_python(script)
    assert (outcome.out, outcome.err) == ("refused\n", "")


# --- a full disk -----------------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_from_the_beginning_leaves_no_run_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.ENOSPC, "manifest"))
    assert_refused(mac(*TRAIN, "--out", tmp_path / "new", *TINY_WORDS), 1, "manifest.json", "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_a_run_that_can_be_resumed(files, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing_fsync(errno.ENOSPC, "checkpoint"))
        outcome = mac(*TRAIN, "--out", "new", *TINY_WORDS, "--quiet")
    assert_refused(outcome, 1, "new/checkpoint-000000000006.safetensors", "No space left on device")
    assert sorted(os.listdir("new")) == ["lock", "manifest.json"]
    assert mac("resume", "new", "--quiet") == (0, "", "")
    assert np.array_equal(Run.load("new").returns, Run.load("run").returns)


def test_a_process_that_runs_out_of_room_keeps_the_earlier_agent(files):
    before = snapshot(files.agent.parent)
    script = """
import resource, sys
from mean_actor_critic.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
main(sys.argv[1:])
"""
    outcome = run_python(script, "export", "run", "--out", "agent.safetensors")
    assert_refused(outcome, 1, "agent.safetensors: could not write: File too large")
    assert outcome.out == ""
    assert snapshot(files.agent.parent) == before


@pytest.mark.parametrize("name", ["nothing", LONG])
def test_a_path_where_nothing_is_is_missing_and_not_damaged(name):
    with pytest.raises(MissingFileError, match="there is no such run folder or agent file"):
        mean_actor_critic.evaluate(name)
    message_of(lambda: Agent.load(name))


@pytest.mark.parametrize("value", ["a" * 10**6, list(range(10**5)), 10**5000], ids=["text", "list", "number"])
def test_a_message_does_not_grow_with_what_was_given(value):
    message = str(InputError("field", value, "something short"))
    assert len(message) < LONGEST_VALUE + 100
    assert message.startswith("field: ")
    assert message.endswith("cannot be used; allowed: something short")

"""Runs on Atari games: exact resumes, evaluations and agents. Small screens, short games."""

import atexit
import functools
import json
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import forge_arrays, message_of, running, wait_until
from mean_actor_critic import progress as bars
from mean_actor_critic.engines.curves import Evaluations
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.runs import loop, signals
from mean_actor_critic.runs.run import AGENTS
from mean_actor_critic.spec.experiment import make_experiment, settings_for_engine
from mean_actor_critic.spec.presets import start_from
from mean_actor_critic.spec.rules import PROTOCOLS

pytestmark = pytest.mark.slow

GAME = "ALE/Breakout-v5"
SMALL = {
    "environments": 2, "screen_size": 36, "stack": 2, "max_episode_frames": 200, "evaluation_steps": 120,
    "evaluation_environments": 2, "evaluation_interval": 100, "evaluation_episodes": 3,
}  # fmt: skip
STEPS = 240  # evaluations at 100, 200 and 240


class Stop(Exception):  # noqa: N818
    pass


def train(folder, **more):
    arguments = {"trials": 2, "steps": STEPS, "seed": 3, "workers": 2, "progress": False, **SMALL, **more}
    return mac.train(GAME, "mac", out=folder, **arguments)


def stopped_after(segments):
    """Shows progress, and ends the run without a word after some segments."""
    left = [segments]

    def show(progress):
        left[0] -= 1
        if not left[0]:
            raise Stop

    return show


@functools.cache
def finished_run():
    """Trained once for all tests, of commands too: to look at, or to copy."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return train(folder / "run")


@pytest.fixture
def finished():
    return finished_run()


# --- exactness -------------------------------------------------------------------------------------------------------


# short segments and pauses between them, so that there is time to kill it
SLOWLY = """
import json, sys, time
import mean_actor_critic as mac
from mean_actor_critic.engines import vector_study
vector_study.SEGMENT_SECONDS = 0.05
game, folder, arguments = sys.argv[1:]
mac.train(game, out=folder, on_progress=lambda _: time.sleep(0.5), **json.loads(arguments))
"""


def test_killed_and_resumed_with_another_number_of_threads_gives_the_same_bits(tmp_path, finished):
    folder = tmp_path / "run"
    arguments = {"trials": 2, "steps": STEPS, "seed": 3, "checkpoint_seconds": 0, **SMALL}
    with running([sys.executable, "-c", SLOWLY, GAME, str(folder), json.dumps(arguments)]) as process:
        wait_until(lambda: process.poll() is not None or list(folder.glob("checkpoint-*.safetensors")))
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed: make it longer"
    assert not mac.Run.load(folder).finished
    assert mac.resume(folder, workers=1, progress=False).digest == finished.digest
    assert mac.Run.load(folder).digest == finished.digest


@pytest.mark.parametrize("settings", [{"pipelined": True}, {"rollout_steps": 3, "time_limit": "bootstrap"}])
def test_stopped_between_checkpoints_and_resumed_gives_the_same_bits(tmp_path, settings, monkeypatch):
    monkeypatch.setattr("mean_actor_critic.engines.vector_study.SEGMENT_SECONDS", 0.01)
    settings = {**settings, "trials": 1, "evaluation_steps": 60}
    whole = train(tmp_path / "whole", **settings)
    with pytest.raises(Stop):
        train(tmp_path / "run", checkpoint_seconds=0, on_progress=stopped_after(6), **settings)
    assert not mac.Run.load(tmp_path / "run").finished
    assert mac.resume(tmp_path / "run", progress=False).digest == whole.digest


def test_a_trial_alone_has_the_bits_that_it_has_among_others(tmp_path, finished):
    alone = train(tmp_path / "run", trials=1, first_trial=1)
    np.testing.assert_array_equal(alone.evaluations.scores[0], finished.evaluations.scores[1])
    for part, other in zip(alone.agent(0).policy, finished.agent(1).policy, strict=True):
        np.testing.assert_array_equal(part.weight, other.weight)


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, finished):
    shutil.copytree(finished.path, tmp_path / "run")
    newest = max((tmp_path / "run").glob("checkpoint-*.safetensors"))
    forge_arrays(newest, {"evaluated": np.full(2, 2, np.int32), "trial/0/screen": np.zeros(32, np.uint8)})
    with pytest.raises(DamagedFileError, match="another screen"):
        mac.resume(tmp_path / "run", progress=False)
    actions = finished._arrays["trial/0/emulators/actions"]
    forge_arrays(newest, {"trial/0/emulators/actions": np.full_like(actions, 200)})  # an emulator would hang
    with pytest.raises(DamagedFileError, match="journals of actions"):
        mac.resume(tmp_path / "run", progress=False)
    forge_arrays(newest, {"trial/0/state/update": None})
    with pytest.raises(DamagedFileError, match="trial/0/state/update"):
        mac.resume(tmp_path / "run", progress=False)


# --- what a run holds ------------------------------------------------------------------------------------------------


def test_evaluations_come_at_every_interval_and_at_the_end(finished):
    assert finished.experiment.evaluation_moments().tolist() == [100, 200, 240]
    assert finished.steps_done.tolist() == [240, 240]
    assert finished.evaluations.evaluated.tolist() == [3, 3]
    assert finished.status == ["finished", "finished"]
    games = np.isfinite(finished.evaluations.scores).sum(-1)
    assert np.all((games == 2) | (games == 4))  # whole batches
    assert np.all(finished.evaluations.training_games.sum(axis=1) > 0)
    scores = finished.evaluations.scores[np.isfinite(finished.evaluations.scores)]
    assert np.all(scores == np.round(scores))
    assert scores.min() >= 0


def test_the_best_agent_and_the_last_are_kept_beside_two_checkpoints(finished):
    names = {file.name for file in (finished.path / AGENTS).iterdir()}
    assert names == {f"{kind}-{i}.safetensors" for i in (0, 1) for kind in ("best", "step-000000000240")}
    assert len(list(finished.path.glob("checkpoint-*"))) == 2
    kept = mac.Agent.load(finished.path / AGENTS / "step-000000000240-1.safetensors")
    for part, other in zip(kept.policy, finished.agent(1).policy, strict=True):
        np.testing.assert_array_equal(part.weight, other.weight)


def test_the_agent_that_is_kept_as_the_best_was_it(tmp_path, finished, monkeypatch):
    """Evaluations with means of 1, 3 and 2, of agents that can be told apart, every second of which is kept."""
    monkeypatch.setattr(loop, "KEEP_EVERY", 2)
    evaluations = Evaluations.empty(finished.experiment)
    network = finished.agent(0).networks.network
    saver = loop.Saver(tmp_path, finished.manifest, 0.0, loop.Aside(signals.Listener(), "advice"))
    for number, mean in enumerate((1.0, 3.0, 2.0), 1):
        evaluations.scores[0, number - 1, :2] = mean
        evaluations.evaluated[0] = number
        bias = np.full_like(network.policy.bias, number)
        marked = network._replace(policy=network.policy._replace(bias=bias))
        networks = Networks(network=marked)
        study = SimpleNamespace(evaluations=evaluations, networks=lambda place, networks=networks: networks)
        saver.keep_agent(study, 0)
    kept = {file.stem: mac.Agent.load(file).policy[-1].bias[0] for file in (tmp_path / AGENTS).iterdir()}
    assert kept == {"best-0": 2, "step-000000000200-0": 2, "step-000000000240-0": 3}


def test_progress_says_how_fast_and_how_well_it_goes_and_nothing_piles_up(tmp_path):
    words, threads, speed = [], [], bars._Speed()

    def note(study):
        if study.newly_evaluated:
            threads.append(len(list(Path("/proc/self/task").iterdir())))

    def show(progress):
        speed.note(progress)
        words.append(bars._mean_in_words(progress, speed))

    train(tmp_path / "run", trials=1, steps=800, on_progress=show, on_study=note)
    fast = [re.search(r"[1-9][\d_]* steps/s", line) is not None for line in words]
    assert all(fast[fast.index(True) :])
    assert sum(fast) >= len(fast) / 2  # all but those before training has gone on between two reports
    assert any(re.search(r"evaluated \d+\.\d", line) for line in words)
    assert len(threads) == 8
    assert max(threads[2:]) <= max(threads[:2])


def game_experiment(algorithm, steps, settings):
    return make_experiment(GAME, algorithm, 1, steps, 0, settings, engine="atari")


def test_no_evaluation_comes_twice():
    experiment = game_experiment("mac", 400, {"rollout_steps": 5, "evaluation_interval": 390})
    assert experiment.evaluation_moments().tolist() == [400]
    experiment = game_experiment("mac", 410, {"rollout_steps": 5, "evaluation_interval": 390})
    assert experiment.evaluation_moments().tolist() == [400, 480]


def test_an_agent_acts_on_one_observation_and_on_many(tmp_path, finished):
    agent = finished.agent(0)
    observation = np.random.default_rng(0).integers(0, 256, (5, 2, 36, 36), np.uint8)
    many = agent.action_probabilities(observation)
    assert many.shape == (5, 4)
    np.testing.assert_allclose(many.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(agent.action_probabilities(observation[2]), many[2], rtol=1e-4)
    assert agent.predict(observation)[0].shape == (5,)
    with pytest.raises(InputError, match="observation"):
        agent.predict(observation[:, :1])


def test_games_in_colour_are_played_and_resumed(tmp_path):
    small = {"trials": 1, "steps": 40, "evaluation_steps": 4, "grey": False}
    whole = train(tmp_path / "whole", **small)
    with pytest.raises(Stop):
        train(tmp_path / "parts", **small, on_progress=stopped_after(1))
    assert mac.resume(tmp_path / "parts", workers=1, progress=False).digest == whole.digest
    observation = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 3), np.uint8)
    whole.agent().save(tmp_path / "agent.safetensors")
    assert mac.Agent.load(tmp_path / "agent.safetensors").action_probabilities(observation).shape == (4,)


def test_one_kind_of_run_serves_games_too_and_what_games_do_not_have_is_refused(finished):
    loaded = mac.Run.load(finished.path)
    assert (loaded.experiment.engine, loaded.experiment.learner) == ("atari", "rollout")
    assert loaded.returns.shape == loaded.lengths.shape == (2, 0)  # single episodes are not kept
    assert mac.resume(finished.path, progress=False).digest == finished.digest
    several = (
        {"engine": "compiled"}, {"engine": "hosted"}, {"episodes": 5}, {"max_episode_steps": 5},
        {"env_kwargs": {"a": 1}}, {"preset": "paper"}, {"snapshots": 3},
        {"algorithm": "reinforce"}, {"learner": "episodic"},
    )  # fmt: skip
    for refused in several:
        assert next(iter(refused)) in message_of(lambda refused=refused: mac.train(GAME, **{"steps": 40, **refused}))
    with pytest.raises(InputError, match="Atari"):
        mac.train("CartPole-v0", engine="atari")
    with pytest.raises(InputError, match="protocol"):
        mac.train("CartPole-v0", protocol="machado")


def test_the_protocols_and_presets_are_settings_that_exist():
    for algorithm in ("mac", "advantage_actor_critic", "a2c"):
        for protocol in PROTOCOLS:
            chosen = start_from(GAME, algorithm, engine="atari", protocol=protocol).settings
            assert set(chosen) <= set(settings_for_engine("atari"))
            game_experiment(algorithm, 10**6, chosen)
    paper = game_experiment("mac", 50_000_000, {})
    assert (paper.rules.sticky_actions, paper.rules.episodic_life, paper.setup.rollout_steps) == (0, True, 1)
    assert (paper.evaluations, paper.updates, paper.most_evaluation_episodes) == (250, 3_125_000, 64)
    assert game_experiment("mac", 10**6, PROTOCOLS["machado"]).rules.sticky_actions == 0.25

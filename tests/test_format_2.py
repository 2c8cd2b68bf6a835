"""Files of format 2, which an earlier version wrote, are read, played and gone on with."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import golden
import mean_actor_critic as mac
from mean_actor_critic.runs import store
from short_runs import assert_same_agents, resume

OLD = Path(__file__).parent / "data" / "format-2"
EXPECTED = json.loads((OLD / "expected.json").read_text())
OLD_RUNS = {  # the status of each trial, and an observation
    "cart-pole": (["episode 2", "episode 2"], np.zeros(4, np.float32)),
    "frozen-lake": (["episode 135", "episode 135"], 3),
    "pong": (["step 200"], np.zeros((4, 36, 36), np.uint8)),
}
of_old_runs = pytest.mark.parametrize("name", OLD_RUNS)


@of_old_runs
def test_a_run_of_format_2_is_read(name):
    run = mac.Run.load(OLD / name)
    status, observation = OLD_RUNS[name]
    assert "run 2" in (OLD / name / "manifest.json").read_text()
    assert not run.warnings
    assert not run.finished
    assert run.status == status
    assert run.steps_done.min() > 0
    if name == "pong":
        assert run.experiment.evaluation.evaluation_episodes == 2  # which was called evaluation_games
        assert run.evaluations.evaluated.tolist() == [1]
        assert np.isfinite(run.latest).all()
    else:
        assert np.all(run.episodes_done > 0)
    probabilities = run.agent(run.experiment.trials - 1).action_probabilities(observation)
    assert probabilities.sum() == pytest.approx(1, rel=1e-5)
    assert name.split("-")[0] in repr(run).lower()


@pytest.mark.slow
@of_old_runs
def test_a_run_of_format_2_goes_on_to_the_bits_that_it_would_have_come_to(name, tmp_path):
    shutil.copytree(OLD / name, tmp_path / "run")
    if golden.kind() != EXPECTED["kind"]:
        pytest.skip("the digests of old files were recorded on a machine of another kind")
    run = resume(tmp_path / "run")
    assert run.finished
    assert run.digest == EXPECTED["digests"][name]
    if name == "cart-pole":
        assert run.snapshots == (0, 2, 5, 9, 40)


def test_a_run_of_format_2_can_get_a_longer_budget(tmp_path):
    shutil.copytree(OLD / "cart-pole", tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions than those that it was begun with
        run = resume(tmp_path / "run", episodes=45)
    assert run.finished
    assert run.episodes_done.tolist() == [45, 45]
    assert json.loads((run.path / "manifest.json").read_text())["format"] == store.RUN_FORMAT
    assert [amount for _, amount in run.manifest.extended] == [40]


@of_old_runs
def test_an_agent_of_format_2_plays(name, tmp_path):
    agent = mac.Agent.load(OLD / f"{name}.safetensors")
    observation = OLD_RUNS[name][1]
    action, _ = agent.predict(observation, deterministic=True)
    assert int(action) == np.argmax(agent.action_probabilities(observation))
    agent.save(tmp_path / "agent.safetensors")
    again = mac.Agent.load(tmp_path / "agent.safetensors")
    assert again.experiment == agent.experiment
    assert_same_agents(again, agent)


def test_a_sweep_of_before_has_its_winners():
    found = mac.Sweep.load(OLD / "sweep")
    assert found.finished
    winners = found.winners()
    assert set(winners) == {"mac", "reinforce"}
    assert all(winner.returns.shape == (2, 4) for winner in winners.values())
    assert {winner.settings["hidden"] for winner in winners.values()} <= {(4,), ()}
    assert len(found.outcomes()) == 8

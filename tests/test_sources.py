"""What a report is made of: the runs and searches it takes, those it refuses, the commands that make them again."""

import importlib.util
import re
import shlex

import numpy as np
import pytest

import mean_actor_critic as mac
import synthetic
from helpers import copy_of_tiny_run, message_of, only_begun
from mean_actor_critic.errors import MacError
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports.answer import answer, notes
from mean_actor_critic.reports.plots import require_matplotlib
from mean_actor_critic.reports.protocol import run_commands, train_command
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.spec.checks import parse_kwargs, parse_settings
from mean_actor_critic.spec.experiment import Budget, make_experiment, settings_for_engine
from mean_actor_critic.spec.paper import COMPARED
from mean_actor_critic.spec.presets import SEARCH_SEEDS, settings_of_preset
from mean_actor_critic.studies.sweep import Rung


def test_unfinished_runs_are_marked_and_show_what_all_trials_have(tmp_path):
    returns = synthetic.learning("mac", 4, 30)
    synthetic.make_run(tmp_path / "runs" / "mac", returns=returns)
    synthetic.make_run(tmp_path / "runs" / "rival", "reinforce", returns - 5, done=12)
    content = contents.read(find_sources([tmp_path / "runs"]))
    assert [entry.label for entry in content.entries] == ["REINFORCE, unfinished", "MAC"]
    assert content.answer_at == 30
    assert {budget: len(rows) for budget, rows in content.results.items()} == {12: 2, 30: 1}
    rival = content.entries[0]
    np.testing.assert_allclose(rival.curve.bands.mean, (returns[:, :12] - 5).mean(axis=0), rtol=1e-6)
    assert notes(content) == ["REINFORCE, unfinished: its trials have 12 of 30 episodes so far."]
    page = mac.report(tmp_path / "runs", tmp_path / "out", video=False)[-1]
    assert notes(content)[0] in page.read_text()


def test_what_others_are_compared_with_is_a_run_that_went_as_far(tmp_path):
    returns = synthetic.learning("mac", 4, 30)
    synthetic.make_run(tmp_path / "early", returns=returns, done=10)
    synthetic.make_run(tmp_path / "whole", returns=returns)
    synthetic.make_run(tmp_path / "rival", "reinforce", returns - 5)
    content = contents.read(find_sources([tmp_path]))
    assert content.reference.source.run.path == tmp_path / "whole"
    assert f"a trial of MAC ({tmp_path / 'whole'}) is the better one" in "".join(answer(content))
    assert [row.better is None for row in content.answer] == [True, False]


def test_unfinished_searches_are_marked(tmp_path):
    rungs = (Rung(2, 30), Rung(4, 30))
    synthetic.make_sweep(tmp_path / "s", synthetic.GRID, rungs, ("mac", "reinforce"), most_cells=3)
    content = contents.read(find_sources([tmp_path / "s"]))
    assert "".join(answer(content)).startswith("On Cart Pole, so far the best of the 18 settings")
    said = "unfinished: 18 of 36 settings tried so far, 0 of 2 algorithms searched to the end"
    assert notes(content) == [f"{tmp_path / 's'}: {said}."]
    assert said in mac.report(tmp_path / "s", tmp_path / "out", video=False)[-1].read_text()


def test_several_searches_are_all_in_the_answer(tmp_path):
    paths = [
        synthetic.make_sweep(tmp_path / name, synthetic.GRID, (Rung(2, 9),), (name,)).path
        for name in ("mac", "reinforce")
    ]
    said = "".join(answer(contents.read(find_sources(paths))))
    for path, title in zip(paths, ("MAC", "REINFORCE"), strict=True):
        assert re.search(rf"the best of the 18 settings of {re.escape(str(path))} score [\d.]+ for {title}", said)


def test_a_search_that_has_only_begun_is_named_and_not_shown(tmp_path):
    run = synthetic.make_run(tmp_path / "run")
    sweep = synthetic.make_sweep(tmp_path / "s", synthetic.GRID, most_cells=0)
    content = contents.read(find_sources([run.path, sweep.path]))
    assert content.begun == [str(sweep.path)]
    assert not content.searches
    assert mac.report([run, sweep.path], tmp_path / "out", video=False)[-1].exists()


def test_runs_that_have_only_begun_are_named_and_not_shown(tmp_path):
    begun = only_begun(copy_of_tiny_run(tmp_path / "study"))
    synthetic.make_run(tmp_path / "study" / "rival", "reinforce", np.ones((2, 3)), settings={"max_episode_steps": 20})
    content = contents.read(find_sources([tmp_path / "study"]))
    assert content.begun == [str(begun)]
    assert [entry.algorithm for entry in content.entries] == ["reinforce"]
    assert content.sources.task is None  # not the paper's: its episodes are shorter


def test_what_is_named_twice_counts_once(tmp_path):
    synthetic.make_study(tmp_path, trials=2, episodes=3)
    assert len(find_sources([tmp_path, tmp_path / "mac", tmp_path]).runs) == 5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: ["nowhere"], "nowhere"),
        (lambda folder: [folder], "a run folder, a folder of run folders, or a sweep folder"),
        (lambda folder: [only_begun(copy_of_tiny_run(folder / "tiny"))], "played an episode"),
        (lambda folder: [synthetic.make_run(folder / "r", seed=SEARCH_SEEDS.start).path], "searched with"),
        (lambda folder: [synthetic.make_sweep(folder / "s", synthetic.GRID, most_cells=0).path], "has been trained"),
        (
            lambda folder: [
                synthetic.make_run(folder / "a").path,
                synthetic.make_run(folder / "b", environment="Acrobot-v1").path,
            ],
            "runs and sweeps of one task",
        ),
        (
            lambda folder: [
                synthetic.make_run(folder / "a").path,
                synthetic.make_run(folder / "b", settings={"max_episode_steps": 100}).path,
            ],
            "at most 100 steps",
        ),
        (
            lambda folder: [
                synthetic.make_run(folder / "a").path,
                synthetic.make_sweep(folder / "s", synthetic.GRID, (Rung(1, 5),), environment="Acrobot-v1").path,
            ],
            "Acrobot-v1",
        ),
        (
            lambda folder: [
                synthetic.make_run(folder / "a", settings={"max_episode_steps": 100}).path,
                synthetic.make_sweep(folder / "s", synthetic.GRID, (Rung(1, 5),)).path,  # with the usual limit
            ],
            "at most 200 steps",
        ),
        (
            lambda folder: [
                synthetic.make_sweep(
                    folder / str(steps), {**synthetic.GRID, "fixed": {"max_episode_steps": steps}}
                ).path
                for steps in (200, 50)
            ],
            "at most 50 steps",
        ),
    ],
)
def test_what_cannot_be_reported_is_refused_in_one_line(tmp_path, make, said):
    (tmp_path / "made").mkdir()
    paths = make(tmp_path / "made")
    assert said in message_of(lambda: mac.report(paths, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    run = synthetic.make_run(tmp_path / "run")
    (tmp_path / "out").write_text("a file")
    assert "a folder" in message_of(lambda: mac.report(run, tmp_path / "out"))


@pytest.mark.parametrize(("missing", "extra"), [("plotly", "report"), ("jinja2", "report"), ("matplotlib", "plots")])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, missing, extra):
    run = synthetic.make_run(tmp_path / "run")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == missing else find_spec(name))
    assert f"mean-actor-critic[{extra}]" in message_of(lambda: mac.report(run, tmp_path / "out"))
    if missing == "matplotlib":
        with pytest.raises(MacError, match="plots"):
            require_matplotlib()


def of_episodes():
    return make_experiment(
        "LunarLander-v3", "advantage_reinforce", 3, 7, 5,
        {"hidden": (), "actor_lr": [0.1, 0.2, 1e-5], "normalize_observations": True, "max_episode_steps": 44},
        first_trial=9, engine="hosted", environment_kwargs={"gravity": -5.0, "name": "it's", "flags": [1, None]},
    )  # fmt: skip


def of_steps():
    settings = {"evaluation_interval": 1000, "evaluation_episodes": 7}
    return make_experiment("CartPole-v0", "mac", 2, Budget("steps", 4321), 0, settings, until=195.5)


def on_game():
    settings = {"sticky_actions": 0.25, "clip_rewards": False}
    return make_experiment("ALE/Pong-v5", "a2c", 2, 10**6, 0, settings, engine="atari", until=18.0)


EXPERIMENTS = (of_episodes, of_steps, on_game)


@pytest.mark.parametrize("make", EXPERIMENTS)
def test_the_commands_name_everything_that_the_experiments_depend_on(make):
    """What a command says, read word by word, is the experiment again."""
    experiment = make()
    first, *options = train_command(experiment, (0, 7)).split(" --")
    assert shlex.split(first) == ["mac", "train", experiment.environment]
    given = {name: words for name, *words in map(shlex.split, options)}
    unit = next(unit for unit in ("episodes", "steps") if unit in given)
    assert given.pop("snapshots") == ["0,7"]
    assert experiment == make_experiment(
        experiment.environment, *given["algorithm"], int(given["trials"][0]), Budget(unit, int(given[unit][0])),
        int(given["seed"][0]), parse_settings(given["set"], settings_for_engine(experiment.engine)),
        first_trial=int(given.get("first-trial", [0])[0]), engine=given["engine"][0], learner=given["learner"][0],
        environment_kwargs=parse_kwargs(given.get("env-kwargs", [])),
        until=float(given["until"][0]) if "until" in given else None,
    )  # fmt: skip


@pytest.mark.parametrize("make", EXPERIMENTS)
def test_the_command_line_takes_the_commands(make):
    try:
        from mean_actor_critic.cli.main import make_parser
    except (ImportError, SyntaxError) as fault:  # while the command line is being rewritten
        pytest.skip(f"the command line cannot be imported: {fault}")
    experiment = make()
    options = make_parser().parse_args(shlex.split(train_command(experiment, (0, 7)))[1:])
    assert (options.environment, options.algorithm) == (experiment.environment, experiment.algorithm)
    assert getattr(options, experiment.budget.unit) == experiment.budget.amount
    assert options.until == experiment.until
    assert parse_settings(options.set, settings_for_engine(experiment.engine)) == experiment.settings()


def test_a_study_of_the_paper_is_one_command(tmp_path):
    synthetic.make_study(tmp_path / "other settings", trials=3, episodes=20)
    for name in COMPARED:
        settings = {"max_episode_steps": 200, **settings_of_preset("CartPole-v0", name)}
        synthetic.make_run(tmp_path / "presets" / name, name, synthetic.learning(name, 3, 20), settings=settings)
    assert run_commands(find_sources([tmp_path / "presets"]).runs) == [
        "mac reproduce cart-pole --trials 3 --episodes 20 --seed 0"
    ]
    assert len(run_commands(find_sources([tmp_path / "other settings"]).runs)) == 5

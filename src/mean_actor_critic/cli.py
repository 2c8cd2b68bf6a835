"""The command line `mac`. Imports JAX only when something is about to be trained or played."""

import argparse
import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mean_actor_critic import atari_commands
from mean_actor_critic._version import __version__
from mean_actor_critic.environments.fleet import STEP_SECONDS
from mean_actor_critic.errors import InputError, Interrupted, MacError
from mean_actor_critic.experiment import ALGORITHMS, SETTINGS, make_experiment, parse_kwargs, parse_settings
from mean_actor_critic.grid import grid_from_json, read_grid
from mean_actor_critic.presets import SEARCH_SEEDS, require_reporting_seed
from mean_actor_critic.progress import progress_display
from mean_actor_critic.store import CHECKPOINT_SECONDS, RUNS, as_file_name
from mean_actor_critic.studies.paper import CLASSIC_CONTROL, SEARCH_TRIALS, Task, papers_grid
from mean_actor_critic.sweep import HALVING, RULES, Sweep

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import TypeIs

    from mean_actor_critic.agent import Agent
    from mean_actor_critic.atari_run import AtariRun
    from mean_actor_critic.environments.catalogue import EnvironmentSpec
    from mean_actor_critic.reports.content import Content
    from mean_actor_critic.reports.page import Recording
    from mean_actor_critic.reports.tensorboard import EventWriter
    from mean_actor_critic.run import Run
    from mean_actor_critic.sweep import Plan


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _settings_help() -> str:
    lines = ["settings (--set name=value; defaults are the preset of environment and algorithm, else these):"]
    for name, setting in SETTINGS.items():
        default = ",".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
        limits = setting.limits
        only = "" if limits.role == "any" else f" [algorithms with a {limits.role}]"
        lines.append(f"  {name}={default}\n      {limits.help}{only}: {limits.allowed}")
    lines.append("\nalgorithms, by what weighs the actions in the policy gradient:")
    lines += [f"  {name:23s} {algorithm.help}" for name, algorithm in ALGORITHMS.items()]
    return "\n".join([*lines, "", atari_commands.settings_help()])


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(prog="mac", description="Mean Actor-Critic and its rivals, whole studies at once.")
    parser.add_argument("--version", action="version", version=f"mac {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, run: Callable[[argparse.Namespace], None], text: str, **options: Any) -> _Parser:
        sub: _Parser = commands.add_parser(name, help=text, description=text, **options)
        sub.set_defaults(run=run)
        return sub

    train = command(
        "train", _train, "Train an algorithm on an environment.",
        epilog=_settings_help(), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    train.add_argument("environment", metavar="ENV", help=_ENVIRONMENT)
    train.add_argument("--algorithm", default="mac", help="one of those below (default: mac)")
    train.add_argument("--trials", type=int, default=1, help="independent trainings (default: 1)")
    train.add_argument("--episodes", type=int, help=f"of each trial (default: {EPISODES})")
    train.add_argument("--seed", type=int, default=0, help="(default: 0)")
    train.add_argument(
        "--first-trial", metavar="I", type=int, default=0,
        help="number of the first trial, to add trials or to run one again alone (default: 0)",
    )  # fmt: skip
    _add_environment_options(train)
    train.add_argument(
        "--engine", choices=["auto", "compiled", "hosted", "atari"], default="auto",
        help="compiled: JAX programs; hosted: any Gymnasium environment, in worker processes; atari: ALE's emulators "
        "(default: auto)",
    )  # fmt: skip
    _add_worker_options(train)
    train.add_argument("--out", metavar="DIR", help="the run folder (default: a new one in runs/)")
    train.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], help="settings, see below"
    )
    _add_checkpoint_seconds(train)
    train.add_argument(
        "--snapshots", metavar="N|E,E", default="0",
        help="keep every trial's networks at N moments from first to last, or after these episodes, for mac gradients",
    )  # fmt: skip
    _add_tensorboard(train)
    _add_quiet(train)
    atari_commands.add_train_options(train)

    resume = command("resume", _resume, "Continue an interrupted run to its end.")
    resume.add_argument("path", metavar="RUN", help="a run folder")
    _add_env(resume)
    _add_worker_options(resume)
    _add_checkpoint_seconds(resume)
    _add_tensorboard(resume)
    _add_quiet(resume)

    runs = command("runs", _runs, "List runs.")
    runs.add_argument("folder", metavar="DIR", nargs="?", default=RUNS, help=f"where to look (default: {RUNS})")

    evaluate = command("evaluate", _evaluate, "Play a run's agents, or one agent, without learning.")
    evaluate.add_argument("player", metavar="RUN|AGENT", help="a run folder or an agent's .safetensors file")
    evaluate.add_argument("--episodes", type=int, help="of each trial (default: 100; of Atari games 16)")
    evaluate.add_argument("--trial", type=int, help="only this trial of the run")
    evaluate.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    _add_env(evaluate)
    _add_worker_options(evaluate)
    evaluate.add_argument("--quiet", action="store_true", help="no progress, only the table")

    watch = command("watch", _watch, "Record an agent playing as a video; needs no display.")
    watch.add_argument("player", metavar="RUN|AGENT", help="a run folder or an agent's .safetensors file")
    watch.add_argument("--trial", type=int, help="which trial of the run (default: 0)")
    _add_env(watch)
    watch.add_argument("--episodes", type=int, default=1, help="one after the other (default: 1)")
    watch.add_argument("--deterministic", action="store_true", help="take the most probable actions, do not sample")
    watch.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    watch.add_argument(
        "--out", metavar="FILE", required=True, help="such as video.mp4; the return is added to its name"
    )

    gradients = command("gradients", _gradients, "Measure bias and variance of every policy-gradient estimator.")
    gradients.add_argument(
        "player", metavar="RUN|AGENT", help="a run folder, best one trained with --snapshots, or an agent"
    )
    gradients.add_argument("--trial", type=int, help="which trial of the run (default: 0)")
    gradients.add_argument(
        "--batch-sizes", metavar="N,N", default="1,16,episode",
        help="numbers of independent states; episode: whole episodes; update: episodes as training averages them "
        "(default: 1,16,episode)",
    )  # fmt: skip
    gradients.add_argument("--replicates", type=int, default=1000, help="estimates of each kind (default: 1000)")
    gradients.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    gradients.add_argument("--out", metavar="DIR", help="(default: the run folder, or a new one in runs/ for an agent)")
    _add_env(gradients)
    _add_worker_options(gradients)
    _add_quiet(gradients)

    check = command("check", _check, "Say in plain words what would go wrong with an environment.")
    check.add_argument("environment", metavar="ENV", help=_ENVIRONMENT)
    _add_environment_options(check)

    export = command("export", _export, "Save one trial of a run as an agent, a single file.")
    export.add_argument("path", metavar="RUN", help="a run folder")
    export.add_argument("--trial", type=int, default=0, help="which (default: 0)")
    export.add_argument("--out", metavar="FILE", required=True, help="such as agent.safetensors")

    sweep = command(
        "sweep", _sweep, "Search the settings of algorithms on a task; interrupted, the same command goes on."
    )
    sweep.add_argument("task", metavar="TASK", help=f"{', '.join(CLASSIC_CONTROL)}, or an environment as in mac train")
    sweep.add_argument("--algorithm", metavar="NAME", nargs="+", default=list(ALGORITHMS), help="(default: all five)")
    sweep.add_argument(
        "--grid", metavar="FILE", default="paper",
        help='the paper\'s 1036 settings ("paper", the default), or JSON: '
        '{"choices": {"hidden": [[64], [128]], "lr": [0.001, 0.01]}, "fixed": {"minibatches": 20}}',
    )  # fmt: skip
    sweep.add_argument("--trials", type=int, default=SEARCH_TRIALS, help=f"of each setting (default: {SEARCH_TRIALS})")
    sweep.add_argument("--episodes", type=int, help="of each trial (default: those of the task, else 200)")
    sweep.add_argument(
        "--halving", choices=list(HALVING),
        help="stop hopeless settings early (default: train all). "
        + "; ".join(f"{name}: {text}" for name, text in HALVING.items()),
    )  # fmt: skip
    sweep.add_argument(
        "--rule", choices=list(RULES), default="asymptotic",
        help="; ".join(f"{name}: {text}" for name, text in RULES.items()).replace("%", "%%") + " (default: asymptotic)",
    )  # fmt: skip
    text = f"from {SEARCH_SEEDS.start}, because those below are for results that are reported (default: that)"
    sweep.add_argument("--seed", type=int, default=SEARCH_SEEDS.start, help=text)
    sweep.add_argument("--out", metavar="DIR", help=f"the sweep folder (default: {RUNS}/sweep-TASK)")
    _add_quiet(sweep)

    reproduce = command("reproduce", _reproduce, "Repeat an experiment of the paper.")
    reproduce.add_argument(
        "study", choices=[*CLASSIC_CONTROL, atari_commands.STUDY, THEOREMS],
        help="the five algorithms on this task; MAC and A2C on games; the paper's theory, exactly and in networks",
    )  # fmt: skip
    extent = reproduce.add_mutually_exclusive_group()
    looks = ", ".join(
        "{}: {} trials of {} episodes".format(name, *task.quick) for name, task in CLASSIC_CONTROL.items()
    )
    extent.add_argument("--quick", action="store_true", help=f"a first look, in minutes ({looks})")
    extent.add_argument(
        "--full", action="store_true", help="search the settings first, as the paper did, instead of taking the presets"
    )
    reproduce.add_argument(
        "--search", metavar="DIR", help=f"with --full: the sweep folder to take or make (default: {RUNS}/sweep-STUDY)"
    )
    reproduce.add_argument("--trials", type=int, help="of each algorithm (default: 100; atari: 5; theorems: 3)")
    usual = ", ".join(f"{name}: {task.episodes}" for name, task in CLASSIC_CONTROL.items())
    reproduce.add_argument("--episodes", type=int, help=f"of each trial (default: {usual})")
    reproduce.add_argument("--seed", type=int, default=0, help="(default: 0)")
    reproduce.add_argument("--out", metavar="DIR", help="(default: runs/STUDY-TRIALSxEPISODES-seedSEED)")
    _add_quiet(reproduce)
    atari_commands.add_reproduce_options(reproduce)

    report = command("report", _report, "Make a page, figures and tables of runs and sweeps on one task.")
    report.add_argument(
        "paths", metavar="RUN", nargs="+",
        help="a run folder, a folder of runs as mac reproduce makes, or a sweep folder",
    )  # fmt: skip
    report.add_argument("--out", metavar="DIR", required=True, help="where to write index.html and the files beside it")
    report.add_argument("--no-video", action="store_true", help="do not record the best agent at play")
    _add_env(report)
    return parser


THEOREMS = "theorems"
EPISODES = 200  # of a trial, unless said otherwise
_ENVIRONMENT = "a Gymnasium id (CartPole-v0, LunarLander-v3, ALE/Pong-v5, package:Id-v0), or my_module:make_env"


def _add_environment_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env-kwargs", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="keyword arguments for the environment, values as in JSON: gravity=-5.0 enable_wind=true",
    )  # fmt: skip
    parser.add_argument(
        "--max-episode-steps", metavar="N", type=int, help="time limit (default: the environment's own, else 1000)"
    )


def _add_env(parser: argparse.ArgumentParser) -> None:
    text = "the environment, if it is my_module:make_env or package:Id-v0: what a file names is not run by itself"
    parser.add_argument("--env", metavar="ENV", help=text)


def _add_worker_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes for hosted environments, threads for Atari's emulators (default: one per core)",
    )
    text = f"a hosted environment that takes longer for a step is taken to hang (default: {STEP_SECONDS:g})"
    parser.add_argument("--step-seconds", metavar="S", type=float, default=STEP_SECONDS, help=text)


def _add_checkpoint_seconds(parser: argparse.ArgumentParser) -> None:
    text = f"time between checkpoints, which is what a kill -9 can cost (default: {CHECKPOINT_SECONDS:g}; Atari: 300)"
    parser.add_argument("--checkpoint-seconds", metavar="S", type=float, help=text)


def _add_tensorboard(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tensorboard", action="store_true", help="write learning curves to RUN/tensorboard while training"
    )


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress and no table; errors are still shown")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: parses, runs, and turns every expected error into one line and an exit code."""
    options = make_parser().parse_args(arguments)
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for my_module:make_env; last, so that nothing of ours is hidden
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"mac: warning: {message}", file=sys.stderr)
            options.run(options)
        sys.stdout.flush()
    except MacError as fault:
        _leave(fault.exit_code, f"mac: {fault}")
    except Interrupted as fault:
        again = (
            "interrupted; the same command goes on from here" if options.command in ("reproduce", "sweep") else fault
        )
        _leave(128 + fault.signal_number, f"mac: {again}")
    except KeyboardInterrupt:
        _leave(130, "mac: interrupted")
    except BrokenPipeError:  # the reader of our output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _leave(code: int, line: str) -> NoReturn:
    """Exit at once: a compilation that still runs in a thread is not waited for."""
    print(line, file=sys.stderr, flush=True)
    os._exit(code)


# --- commands --------------------------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> None:
    if atari_commands.is_game(options):
        return _show_run(atari_commands.train(options), options.quiet)
    if options.engine == "atari":
        raise InputError("ENV", options.environment, "an Atari game, such as ALE/Pong-v5, for this engine")
    settings = parse_settings(options.set)
    kwargs = parse_kwargs(options.env_kwargs)
    if options.max_episode_steps is not None:
        settings["max_episode_steps"] = options.max_episode_steps
    from mean_actor_critic.training.loop import train

    def started(path: Path, environment: "EnvironmentSpec") -> None:
        events.begin(path)
        if not options.quiet:
            limit = f"episodes of at most {environment.max_episode_steps} steps"
            print(f"{environment.name}: {environment.engine} engine, {limit}; run folder: {path}", file=sys.stderr)

    with progress_display(options.quiet) as watch, contextlib.closing(_Events(options.tensorboard)) as events:
        run = train(
            options.environment,
            options.algorithm,
            trials=options.trials,
            episodes=EPISODES if options.episodes is None else options.episodes,
            seed=options.seed,
            first_trial=options.first_trial,
            engine=options.engine,
            env_kwargs=kwargs,
            workers=options.workers,
            step_seconds=options.step_seconds,
            out=options.out,
            checkpoint_seconds=_checkpoint_seconds(options),
            snapshots=_parse_snapshots(options.snapshots),
            on_progress=watch(f"{options.environment} {options.algorithm}"),
            on_start=started,
            on_curves=events.write,
            **settings,
        )
    return _show_run(run, options.quiet)


def _checkpoint_seconds(options: argparse.Namespace) -> float:
    return CHECKPOINT_SECONDS if options.checkpoint_seconds is None else options.checkpoint_seconds


def _resume(options: argparse.Namespace) -> None:
    from mean_actor_critic.atari_run import AtariRun, load_run

    run = load_run(options.path)
    _warn(run)
    if isinstance(run, AtariRun):
        return _show_run(atari_commands.resume(options, run), options.quiet)
    from mean_actor_critic.training.loop import resume

    if run.finished:
        if not options.quiet:
            print(f"{options.path}: already finished", file=sys.stderr)
    else:
        with progress_display(options.quiet) as watch, contextlib.closing(_Events(options.tensorboard)) as events:
            events.begin(Path(options.path))
            show = watch(str(options.path))
            run = resume(
                options.path,
                options.env,
                workers=options.workers,
                step_seconds=options.step_seconds,
                checkpoint_seconds=_checkpoint_seconds(options),
                on_progress=show,
                on_curves=events.write,
            )
    return _show_run(run, options.quiet)


def _runs(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports.tables import runs_table

    folder = Path(options.folder)
    there = os.path.isdir(folder)
    if not there and options.folder != RUNS:
        raise InputError("DIR", options.folder, "a folder")
    table, count = runs_table(folder) if there else (None, 0)
    if count:
        _console().print(table)
    else:
        print(f"no runs in {folder}")


def _evaluate(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports.statistics import summarise
    from mean_actor_critic.reports.tables import plain_table, summary_cells

    player = _load_player(options.player, options.trial)
    usual = atari_commands.EVALUATED_GAMES if atari_commands.is_on_game(player.experiment) else 100
    episodes = usual if options.episodes is None else options.episodes
    from mean_actor_critic.training.evaluation import evaluate

    table = plain_table(
        f"{options.player}: {episodes} episodes{' of each trial' if _is_run(player) else ''}",
        ["Actions", "mean return", "SD", "95 % interval", "trials" if _is_run(player) else "episodes"],
    )
    with progress_display(options.quiet) as watch:
        for name, deterministic in (("sampled", False), ("most probable", True)):
            returns = evaluate(
                player,
                episodes,
                deterministic=deterministic,
                seed=options.seed,
                environment=options.env,
                workers=options.workers,
                step_seconds=options.step_seconds,
                on_progress=watch(name),
            )
            # the independent unit: trials of a run, episodes of one agent
            table.add_row(name, *summary_cells(summarise(returns.mean(axis=1) if _is_run(player) else returns[0])))
    _console().print(table)


def _watch(options: argparse.Namespace) -> None:
    from mean_actor_critic.watching import watch

    player = _load_player(options.player, options.trial)
    agent = player.agent(0) if _is_run(player) else player
    video = watch(
        agent,
        options.out,
        options.episodes,
        deterministic=options.deterministic,
        seed=options.seed,
        environment=options.env,
    )
    each = f" ({', '.join(f'{value:.1f}' for value in video.returns)})" if len(video.returns) > 1 else ""
    what = f"{len(video.returns)} episodes, mean return" if each else "return"
    mean = sum(video.returns) / len(video.returns)
    print(f"{video.file}: {video.frames} frames, {what} {mean:.1f}{each}")


def _check(options: argparse.Namespace) -> None:
    if atari_commands.is_name_of_game(options.environment):
        return print(atari_commands.check(options.environment))
    from mean_actor_critic.environments.catalogue import check_environment

    signs = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
    problems = 0
    kwargs = parse_kwargs(options.env_kwargs)
    for finding in check_environment(options.environment, kwargs, options.max_episode_steps):
        problems += finding.level == "problem"
        print(f"{signs[finding.level]} {finding.text}")
    if problems:
        raise MacError(f"{options.environment}: {problems} problem{'s' if problems > 1 else ''}, see above")
    return print(f"{options.environment}: can be trained")


def _export(options: argparse.Namespace) -> None:
    from mean_actor_critic.atari_run import load_run

    run = load_run(options.path)
    _warn(run)
    run.agent(options.trial).save(options.out)
    print(f"{options.out}: trial {options.trial} of {options.path}, {run.status[options.trial]}")


def _gradients(options: argparse.Namespace) -> None:
    from mean_actor_critic.atari_experiment import of_episodes
    from mean_actor_critic.atari_run import AtariRun
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.store import make_folder, sole_writer
    from mean_actor_critic.theory import Theory, write_theory

    player = _load_player(options.player, None)
    experiment = of_episodes(player.experiment)
    assert not isinstance(player, AtariRun)
    run = player if _is_run(player) else None
    if run is None and options.trial is not None:
        raise InputError("--trial", options.trial, "nothing with an agent, which is one trial")
    from mean_actor_critic.gradients.claims import claims
    from mean_actor_critic.gradients.moments import frozen_agents, measure_trial, parse_batches
    from mean_actor_critic.training.devices import versions

    batches = parse_batches(options.batch_sizes)
    frozen_agents(player, options.trial or 0)  # what cannot be measured, or written, is said before the work
    name = options.player if run else f"{RUNS}/gradients-{as_file_name(Path(options.player).stem)}"
    folder = Path(options.out or name)
    make_folder(folder)
    if run is not None and not run.snapshots and not options.quiet:
        print(f"{options.player}: was trained without --snapshots; only its last state is measured", file=sys.stderr)
    with progress_display(options.quiet) as watch:
        trial = measure_trial(
            player,
            options.trial or 0,
            batches=batches,
            replicates=options.replicates,
            seed=options.seed,
            environment=options.env,
            workers=options.workers,
            step_seconds=options.step_seconds,
            on_progress=watch("gradients"),
        )
    theory = Theory(
        command=_command_line(options),
        versions=versions(experiment.engine),
        trials=(trial,),
        curves=(),
        problems=0,
        claims=claims(None, (trial,)),
    )
    with sole_writer(folder):
        file = write_theory(folder, theory)
    if not options.quiet:
        for table in report.tables(theory):
            _console().print(table)
        print(f"written: {file}; mac report {folder} makes a page of it")


def _reproduce_theorems(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports import content, files, sources
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.reports.plots import require_matplotlib
    from mean_actor_critic.store import sole_writer
    from mean_actor_critic.theory import write_theory

    require_matplotlib()
    with_page = _can_make_page()
    if options.full:
        raise InputError("--full", THEOREMS, "nothing with the theorems, which need no search")
    from mean_actor_critic.studies.theorems import reproduce

    task = CLASSIC_CONTROL["cart-pole"]
    trials = options.trials if options.trials is not None else (1 if options.quick else 3)
    episodes = task.episodes if options.episodes is None else options.episodes
    folder = Path(options.out or f"{RUNS}/{THEOREMS}-{trials}x{episodes}-seed{options.seed}")
    started = time.monotonic()
    with progress_display(options.quiet) as watch:
        theory = reproduce(task, folder, trials, episodes, options.seed, watch, _command_line(options))
    with sole_writer(folder):
        written = [write_theory(folder, theory)]
    if not options.quiet:
        for line in report.verdicts(theory):
            print(line)
    if with_page:
        numbers = content.read(sources.find_sources([folder]))
        written += files.write_report(numbers, _record_best(numbers, None), folder / "report")[-1:]
    if not options.quiet:
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, written))}")


def _command_line(options: argparse.Namespace) -> str:
    """What was typed, as far as it says what was measured."""
    import shlex

    if options.command == "gradients":
        words = ["mac", "gradients", options.player, "--batch-sizes", options.batch_sizes]
        words += ["--replicates", str(options.replicates), "--seed", str(options.seed)]
        return shlex.join(words + (["--trial", str(options.trial)] if options.trial is not None else []))
    words = ["mac", "reproduce", THEOREMS, "--seed", str(options.seed)]
    for name in ("trials", "episodes"):
        words += [f"--{name}", str(getattr(options, name))] if getattr(options, name) is not None else []
    return shlex.join(words + (["--quick"] if options.quick else []))


def _parse_snapshots(text: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError("--snapshots", text, "a number such as 5, or episodes such as 0,50,200") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _reproduce(options: argparse.Namespace) -> None:
    if options.study == atari_commands.STUDY:
        return _reproduce_atari(options)
    atari_commands.require_no_game_options(options)
    if options.study == THEOREMS:
        return _reproduce_theorems(options)
    from mean_actor_critic.reports import classic_control as report
    from mean_actor_critic.reports import files
    from mean_actor_critic.reports.answer import answer
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    with_page = _can_make_page()
    from mean_actor_critic.studies.classic_control import reproduce

    task = CLASSIC_CONTROL[options.study]
    usual = task.quick if options.quick else (100, task.episodes)
    trials, episodes = (
        usual[i] if asked is None else asked for i, asked in enumerate((options.trials, options.episodes))
    )
    kind = "full-" if options.full else ""
    folder = Path(options.out or f"{RUNS}/{options.study}-{kind}{trials}x{episodes}-seed{options.seed}")
    started = time.monotonic()
    sweeps, winners, origins = [], None, {}
    if options.full:
        # before hours of search, not after them
        require_reporting_seed(options.seed)
        make_experiment(task.environment, "mac", trials, episodes, options.seed, {})
        place = Path(options.search or f"{RUNS}/sweep-{options.study}")
        sweep, origin = _search(place, _papers_plan(task, place), options.study, options.quiet)
        sweeps, origins = [sweep], {sweep.path: origin}
        winners = {name: outcome.settings for name, outcome in sweep.winners().items()}
    elif options.search is not None:
        raise InputError("--search", options.search, "nothing without --full")
    runs: list[Run] = []
    with progress_display(options.quiet) as watch:
        for run, reused in reproduce(task, folder, trials, episodes, options.seed, watch, winners):
            runs.append(run)
            origins[run.path] = "finished before, taken as it is" if reused else "finished by this command"
            if reused and not options.quiet:
                print(f"{run.path}: already finished, taken as it is", file=sys.stderr)
    content = report.study(task, runs, sweeps, origins)
    written = report.write(content, folder)
    if not options.quiet:
        for table in report.tables(content):
            _console().print(table)
        for run in runs:
            _show_divergence(run)
        print("".join(answer(content)))
    if with_page:
        written += files.write_report(content, _record_best(content, None), folder / "report")[-1:]
    if not options.quiet:
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, written))}")
    return None


def _papers_plan(task: Task, folder: Path) -> "Plan":
    """Of the search in a folder, if there is one that will do for a study; else the paper's."""
    from mean_actor_critic.studies.search import make_plan
    from mean_actor_critic.sweep import is_sweep

    if not is_sweep(folder):
        grid = grid_from_json(papers_grid(task.environment))
        return make_plan(task.environment, list(ALGORITHMS), grid, SEARCH_TRIALS, task.episodes, halving=task.halving)
    plan = Sweep.load(folder).plan
    if plan.environment != task.environment or set(plan.algorithms) != set(ALGORITHMS):
        raise InputError("--search", str(folder), f"a search of {', '.join(ALGORITHMS)} on {task.environment}")
    return plan


def _reproduce_atari(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports.atari import show

    started = time.monotonic()
    done = atari_commands.reproduce(options)
    if not options.quiet:
        _console().print(show(done.runs))
        for run in done.runs:
            _show_divergence(run)
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, done.files))}")


def _sweep(options: argparse.Namespace) -> None:
    from mean_actor_critic.studies.search import make_plan

    task = CLASSIC_CONTROL.get(options.task)
    environment = task.environment if task else options.task
    grid = grid_from_json(papers_grid(environment)) if options.grid == "paper" else read_grid(options.grid)
    plan = make_plan(
        environment,
        options.algorithm,
        grid,
        options.trials,
        (task.episodes if task else 200) if options.episodes is None else options.episodes,
        rule=options.rule,
        halving=options.halving,
        seed=options.seed,
    )
    _search(Path(options.out or f"{RUNS}/sweep-{as_file_name(options.task)}"), plan, options.task, options.quiet)


def _search(folder: Path, plan: "Plan", label: str, quiet: bool) -> tuple[Sweep, str]:
    """Train what a plan asks for and is not there yet, say what came of it, and give back how much was there."""
    from mean_actor_critic.reports import search as report
    from mean_actor_critic.studies.search import search

    started, trained, cells, reused = time.monotonic(), 0, 0, 0
    with progress_display(quiet) as watch:
        for done in search(folder, plan, watch(f"sweep {label}")):
            trained += 0 if done.reused else len(done.cell.points) * done.cell.trials
            reused += done.reused
            cells += 1
    sweep = Sweep.load(folder)
    summary = folder / "summary.csv"
    report.write_summary(sweep, summary)
    if not quiet:
        _console().print(report.winners_table(sweep, plan.rule))
        if reused:
            print(f"{reused} of {cells} cells were already there and taken as they are")
        print(f"{report.extent(sweep)}; {trained} trainings in {time.monotonic() - started:.0f} s")
        print(f"{folder}: results {sweep.results_digest[:16]}; written: {summary}")
    if not reused:
        return sweep, "finished by this command"
    return (
        sweep,
        "finished before, taken as it is" if reused == cells else f"{reused} of {cells} cells were there before",
    )


def _report(options: argparse.Namespace) -> None:
    games = atari_commands.runs_to_report(options.paths)
    if games:
        from mean_actor_critic.reports.atari import show

        written = atari_commands.report(games, Path(options.out))
        _console().print(show(games))
        print(f"{written[-1]}, and {len(written) - 1} files beside it")
        return
    from mean_actor_critic.reports import content, files, page, plots, sources
    from mean_actor_critic.reports.answer import answer, notes
    from mean_actor_critic.store import make_folder

    plots.require_matplotlib()
    page.require_page()
    found = sources.find_sources(options.paths)
    folder = Path(options.out)
    make_folder(folder)  # what cannot be written is said before the work
    numbers = content.read(found)
    recording = page.Recording("No video was asked for.") if options.no_video else _record_best(numbers, options.env)
    written = files.write_report(numbers, recording, folder)
    print("".join(answer(numbers)))
    for line in notes(numbers):
        print(line)
    size = written[-1].stat().st_size / 2**20
    print(f"{written[-1]}: {size:.1f} MB, and {len(written) - 1} files beside it")


def _can_make_page() -> bool:
    """Whether the report's extra is installed; if not, that is said now, before long work."""
    from mean_actor_critic.reports.page import require_page

    try:
        require_page()
    except MacError as fault:
        print(f"mac: there will be no page: {fault}", file=sys.stderr)
        return False
    return True


def _record_best(numbers: "Content", environment: str | None) -> "Recording":
    """A short video of the best agent, or the reason why there is none: a report does without."""
    import tempfile

    from mean_actor_critic.reports.content import best_agent
    from mean_actor_critic.reports.page import MOST_VIDEO, Recording
    from mean_actor_critic.watching import watch

    best = best_agent(numbers)
    if best is None:
        return Recording("Searches keep no agents.")
    entry, trial = best
    try:
        with tempfile.TemporaryDirectory() as folder:
            video = watch(entry.source.run.agent(trial), Path(folder) / "best.mp4", environment=environment)
            recorded = video.file.read_bytes()
    except MacError as fault:
        return Recording(f"No video: {fault}.")
    if len(recorded) > MOST_VIDEO:
        return Recording(
            f"No video: an episode takes {len(recorded) / 2**20:.1f} MB; mac watch records it into a file."
        )
    words = (
        f"{entry.label}, trial {trial}: one episode with sampled actions after training, return {video.returns[0]:.1f}."
    )
    return Recording(words, recorded)


# --- shared ----------------------------------------------------------------------------------------------------------


class _Events:
    """TensorBoard events of a run, if they are wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._writer: EventWriter | None = None
        if wanted:
            from mean_actor_critic.reports.tensorboard import require_tensorboard

            require_tensorboard()

    def begin(self, run: Path) -> None:
        """For a run folder that is there."""
        if self._wanted:
            from mean_actor_critic.reports.tensorboard import EventWriter

            self._writer = EventWriter(run)

    def write(self, returns: Any, lengths: Any) -> None:
        """Whatever is new."""
        if self._writer is not None:
            self._writer(returns, lengths)

    def close(self) -> None:
        """Everything is on disk."""
        if self._writer is not None:
            self._writer.close()


def _load_player(path: str, trial: int | None) -> "Run | AtariRun | Agent":
    from mean_actor_critic.agent import Agent
    from mean_actor_critic.atari_run import load_run

    if os.path.isdir(path):
        run = load_run(path)
        _warn(run)
        return run if trial is None else run.agent(trial)
    if not os.path.exists(path):
        raise InputError("RUN|AGENT", path, "a run folder or an agent's .safetensors file")
    if trial is not None:
        raise InputError("--trial", trial, "nothing with an agent, which is one trial")
    return Agent.load(path)


def _is_run(player: "Run | AtariRun | Agent") -> "TypeIs[Run | AtariRun]":
    return hasattr(player, "status")


def _show_run(run: "Run | AtariRun", quiet: bool) -> None:
    if not quiet:
        from mean_actor_critic.atari_run import AtariRun
        from mean_actor_critic.reports import atari, tables

        _console().print(atari.run_table(run) if isinstance(run, AtariRun) else tables.run_table(run))
        _show_divergence(run)
        print(f"{run.path}: results {run.digest[:16]}")


def _show_divergence(run: "Run | AtariRun") -> None:
    from mean_actor_critic.reports.tables import diverged_line

    line = diverged_line(run)
    if line:
        print(f"{run.experiment.setup.algorithm}: {line}")


def _warn(run: "Run | AtariRun") -> None:
    for line in run.warnings:
        print(f"mac: warning: {line}; using the checkpoint before it", file=sys.stderr)


def _console() -> "Console":
    from rich.console import Console

    # a pipe has no width: give tables the room they need
    width = None if sys.stdout.isatty() else 140
    return Console(width=width, color_system=None if os.environ.get("NO_COLOR") else "auto")


if __name__ == "__main__":
    main()

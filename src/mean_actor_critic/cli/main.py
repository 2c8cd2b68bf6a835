"""The command line `mac`. Imports JAX only when something is about to be trained or played."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mean_actor_critic._version import __version__
from mean_actor_critic.cli import games, studies, training
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS
from mean_actor_critic.errors import Interrupted, MacError
from mean_actor_critic.progress import say
from mean_actor_critic.runs.store import CHECKPOINT_SECONDS, RUNS
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.experiment import SETTINGS
from mean_actor_critic.spec.paper import CLASSIC_CONTROL, SEARCH_TRIALS
from mean_actor_critic.spec.presets import PRESETS, SEARCH_SEEDS
from mean_actor_critic.studies.sweep import HALVING, RULES


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
    return "\n".join([*lines, "", games.settings_help()])


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
        "train", training.train, "Train an algorithm on an environment.",
        epilog=_settings_help(), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    train.add_argument("environment", metavar="ENV", help=_ENVIRONMENT)
    train.add_argument("--algorithm", default="mac", help="one of those below (default: mac)")
    train.add_argument("--trials", type=int, default=1, help="independent trainings (default: 1)")
    train.add_argument("--episodes", type=int, help=f"of each trial (default: {training.EPISODES})")
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
    _add_preset(train)
    _add_checkpoint_seconds(train)
    train.add_argument(
        "--snapshots", metavar="N|E,E", default="0",
        help="keep every trial's networks at N moments from first to last, or after these episodes, for mac gradients",
    )  # fmt: skip
    _add_tensorboard(train)
    _add_quiet(train)
    games.add_train_options(train)

    resume = command("resume", training.resume, "Continue an interrupted run to its end.")
    resume.add_argument("path", metavar="RUN", help="a run folder")
    _add_env(resume)
    _add_worker_options(resume)
    _add_checkpoint_seconds(resume)
    _add_tensorboard(resume)
    _add_quiet(resume)

    runs = command("runs", training.runs, "List runs.")
    runs.add_argument("folder", metavar="DIR", nargs="?", default=RUNS, help=f"where to look (default: {RUNS})")

    evaluate = command("evaluate", training.evaluate, "Play a run's agents, or one agent, without learning.")
    evaluate.add_argument("player", metavar="RUN|AGENT", help="a run folder or an agent's .safetensors file")
    evaluate.add_argument("--episodes", type=int, help="of each trial (default: 100; of Atari games 16)")
    evaluate.add_argument("--trial", type=int, help="only this trial of the run")
    evaluate.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    games.add_evaluate_options(evaluate)
    _add_env(evaluate)
    _add_worker_options(evaluate)
    evaluate.add_argument("--quiet", action="store_true", help="no progress, only the table")

    watch = command("watch", training.watch, "Record an agent playing as a video; needs no display.")
    watch.add_argument("player", metavar="RUN|AGENT", help="a run folder or an agent's .safetensors file")
    watch.add_argument("--trial", type=int, help="which trial of the run (default: 0)")
    _add_env(watch)
    watch.add_argument("--episodes", type=int, default=1, help="one after the other (default: 1)")
    watch.add_argument("--deterministic", action="store_true", help="take the most probable actions, do not sample")
    watch.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    watch.add_argument(
        "--out", metavar="FILE", required=True, help="such as video.mp4; the return is added to its name"
    )

    gradients = command("gradients", studies.gradients, "Measure bias and variance of every policy-gradient estimator.")
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

    check = command("check", training.check, "Say in plain words what would go wrong with an environment.")
    check.add_argument("environment", metavar="ENV", help=_ENVIRONMENT)
    _add_environment_options(check)

    export = command("export", training.export, "Save one trial of a run as an agent, a single file.")
    export.add_argument("path", metavar="RUN", help="a run folder")
    export.add_argument("--trial", type=int, default=0, help="which (default: 0)")
    export.add_argument("--out", metavar="FILE", required=True, help="such as agent.safetensors")

    sweep = command(
        "sweep", studies.sweep, "Search the settings of algorithms on a task; interrupted, the same command goes on."
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

    reproduce = command("reproduce", studies.reproduce, "Repeat an experiment of the paper.")
    reproduce.add_argument(
        "study", choices=[*CLASSIC_CONTROL, games.STUDY, studies.THEOREMS],
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
    reproduce.add_argument("--rule", choices=RULES, help="with --full: who wins the search (default: asymptotic)")
    _add_preset(reproduce)
    reproduce.add_argument("--trials", type=int, help="of each algorithm (default: 100; atari: 5; theorems: 3)")
    usual = ", ".join(f"{name}: {task.episodes}" for name, task in CLASSIC_CONTROL.items())
    reproduce.add_argument("--episodes", type=int, help=f"of each trial (default: {usual})")
    reproduce.add_argument("--seed", type=int, default=0, help="(default: 0)")
    reproduce.add_argument("--out", metavar="DIR", help="(default: runs/STUDY-TRIALSxEPISODES-seedSEED)")
    _add_quiet(reproduce)
    games.add_reproduce_options(reproduce)

    report = command("report", studies.report, "Make a page, figures and tables of runs and sweeps on one task.")
    report.add_argument(
        "paths", metavar="RUN", nargs="+",
        help="a run folder, a folder of runs as mac reproduce makes, or a sweep folder",
    )  # fmt: skip
    report.add_argument("--out", metavar="DIR", required=True, help="where to write index.html and the files beside it")
    report.add_argument("--no-video", action="store_true", help="do not record the best agent at play")
    _add_env(report)
    return parser


_ENVIRONMENT = "a Gymnasium id (CartPole-v0, LunarLander-v3, ALE/Pong-v5, package:Id-v0), or my_module:make_env"


def _add_environment_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env-kwargs", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="keyword arguments for the environment, values as in JSON: gravity=-5.0 enable_wind=true",
    )  # fmt: skip
    parser.add_argument(
        "--max-episode-steps", metavar="N", type=int, help="time limit (default: the environment's own, else 1000)"
    )


def _add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset", choices=PRESETS,
        help="settings to start from: found by searches of our own; the winners of the paper's by its rule, or by area "
        "(default: tuned)",
    )  # fmt: skip


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
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(f"mac: warning: {message}")
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
    say(line)
    os._exit(code)


if __name__ == "__main__":
    main()

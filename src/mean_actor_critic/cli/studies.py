"""The command reproduce: the paper's comparisons, its theorems, and the study of the replayed learner."""

import argparse
import importlib.util
import shlex
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.cli.report import can_make_page
from mean_actor_critic.cli.search import carry_out
from mean_actor_critic.cli.settings import known_settings
from mean_actor_critic.cli.shared import show_divergence
from mean_actor_critic.errors import InputError
from mean_actor_critic.files import require_own
from mean_actor_critic.progress import progress_display
from mean_actor_critic.runs.store import RUNS, folder_for_results
from mean_actor_critic.spec.checks import parse_settings, unknown_name
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.spec.modern import QUICK_SHARE, QUICK_TRIALS, TASKS, TWINS, VARIANTS, Extent
from mean_actor_critic.spec.paper import (
    ATARI,
    ATARI_STEPS,
    ATARI_TRIALS,
    CLASSIC_CONTROL,
    COMPARED,
    SEARCH_TRIALS,
    TABLE_2,
    Game,
    Task,
    papers_grid,
)
from mean_actor_critic.spec.presets import require_reporting_seed, settings_of_preset
from mean_actor_critic.studies.sweep import RULES, Sweep
from mean_actor_critic.terminal import console, say, show, tell

if TYPE_CHECKING:
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.studies.sweep import Plan

GAMES, THEOREMS, MODERN = (
    "atari",
    "theorems",
    "modern",
)  # what the command calls the studies that are not of classic control
TRIALS = 100  # of each algorithm, in the paper
THEOREM_TRIALS = 3
FINISHED, TAKEN = "finished by this command", "finished before, taken as it is"


def _add_reproduce_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", choices=[*CLASSIC_CONTROL, GAMES, THEOREMS, MODERN],
        help="the five algorithms on this task; MAC and A2C on games; the paper's theory, exactly and in networks; "
        "what averaging over all actions, and each part of the general learner, is worth on many tasks",
    )  # fmt: skip
    extent = parser.add_mutually_exclusive_group()
    looks = ", ".join(
        "{}: {} trials of {} episodes".format(name, *task.quick) for name, task in CLASSIC_CONTROL.items()
    )
    looks += f"; {MODERN}: {QUICK_TRIALS} trials of {QUICK_SHARE:.0%} of the steps"
    extent.add_argument("--quick", action="store_true", help=f"a first look, in minutes ({looks})".replace("%", "%%"))
    extent.add_argument(
        "--full", action="store_true", help="search the settings first, as the paper did, instead of taking the presets"
    )
    parser.add_argument(
        "--search", metavar="DIR", help=f"with --full: the sweep folder to take or make (default: {RUNS}/sweep-STUDY)"
    )
    parser.add_argument("--rule", choices=RULES, help="with --full: who wins the search (default: asymptotic)")
    shared_options.add_preset(parser)
    fewest, most = (bound(task.trials for task in TASKS.values()) for bound in (min, max))
    usual = f"{TRIALS}; {GAMES}: {ATARI_TRIALS}; {THEOREMS}: {THEOREM_TRIALS}; {MODERN}: {fewest} to {most}"
    parser.add_argument("--trials", type=int, help=f"of each algorithm (default: {usual})")
    usual = ", ".join(f"{name}: {task.episodes}" for name, task in CLASSIC_CONTROL.items())
    parser.add_argument("--episodes", type=int, help=f"of each trial (default: {usual})")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--out", metavar="DIR", help="(default: runs/STUDY-TRIALSxEPISODES-seedSEED)")
    shared_options.add_quiet(parser)
    _add_game_options(parser.add_argument_group(GAMES))
    _add_modern_options(parser.add_argument_group(MODERN))


def _add_game_options(group: Any) -> None:
    """What only the study of games takes."""
    names = ", ".join(ATARI)
    group.add_argument(
        "--game", "--games", metavar="NAME", nargs="+", dest="games", help=f"{names}, or all (default: all)"
    )
    group.add_argument("--steps", type=int, help=f"agent steps of each trial, not frames (default: {ATARI_STEPS:_})")
    group.add_argument(
        "--algorithm", metavar="NAME", nargs="+", dest="algorithms",
        help=f"as in mac train (default: {' '.join(TABLE_2)})",
    )  # fmt: skip
    shared_options.add_protocol(group)
    shared_options.add_settings(group, "settings as in mac train")


def _add_modern_options(group: Any) -> None:
    """What only the study of the replayed learner takes."""
    group.add_argument(
        "--task", "--tasks", metavar="NAME", nargs="+", dest="tasks", help=f"{', '.join(TASKS)} (default: all)"
    )
    group.add_argument(
        "--variant", "--variants", metavar="NAME", nargs="+", dest="variants",
        help=f"{', '.join(TWINS)}, or a setting of MAC that is switched off: {', '.join(VARIANTS[len(TWINS) :])} "
        "(default: all)",
    )  # fmt: skip
    group.add_argument("--steps-share", metavar="SHARE", type=float, help="of each task's steps (default: 1)")


def reproduce(options: argparse.Namespace) -> None:
    """`mac reproduce`."""
    if options.study == MODERN:
        _refuse(options, "--trials and --steps-share, with the study modern", "full", "episodes", *_SEARCHED)
        _refuse(options, f"mac reproduce {GAMES}", *_OF_GAMES)
        return _reproduce_modern(options)
    _refuse(options, f"mac reproduce {MODERN}", "tasks", "variants", "steps_share")
    if options.study == GAMES:
        _refuse(options, "--steps and --trials, with Atari games", "quick", "full", "episodes", *_SEARCHED)
        return _reproduce_games(options)
    _refuse(options, f"mac reproduce {GAMES}", *_OF_GAMES)
    if options.study == THEOREMS:
        _refuse(options, "nothing: theorems need no search", "full", *_SEARCHED)
        return _reproduce_theorems(options)
    return _reproduce_classic(options)


def _page_of(folder: Path) -> Path:
    """Where a study has its report. That nothing there leads elsewhere is seen before the work."""
    require_own(folder / "report")
    return folder / "report"


_SEARCHED = ("search", "rule", "preset")  # options about where settings come from
_OF_GAMES = ("games", "steps", "algorithms", "protocol", "set")


def _refuse(options: argparse.Namespace, allowed: str, *names: str) -> None:
    """Raise an InputError if one of these was asked for."""
    for name in names:
        asked = getattr(options, name)
        if asked not in (None, False, []):
            raise InputError(
                f"--{name.replace('_', '-')}", " ".join(map(str, asked)) if isinstance(asked, list) else asked, allowed
            )


# --- classic control -------------------------------------------------------------------------------------------------


def _reproduce_classic(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports import classic_control as report
    from mean_actor_critic.reports import files
    from mean_actor_critic.reports.answer import answer
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    with_page = can_make_page()
    from mean_actor_critic.reports.tables import results_tables
    from mean_actor_critic.reports.write import record_best
    from mean_actor_critic.studies.reproduce import classic, reproduce

    task = CLASSIC_CONTROL[options.study]
    trials, episodes = _extent(options, task.quick if options.quick else (TRIALS, task.episodes))
    kind = "".join(f"{word}-" for word in ("full" if options.full else None, options.rule, options.preset) if word)
    folder = Path(options.out or f"{RUNS}/{options.study}-{kind}{trials}x{episodes}-seed{options.seed}")
    page = _page_of(folder)
    begun = time.monotonic()
    winners = _winners(options, task, folder, trials, episodes)
    runs: list[Run] = []
    origins = dict(winners.origins)
    with progress_display(options.quiet) as watch:
        parts = classic(task, folder, trials, episodes, options.seed, winners.settings, COMPARED)
        for run, reused in reproduce(parts, watch):
            runs.append(run)
            origins[run.path] = TAKEN if reused else FINISHED
            if reused and not options.quiet:
                say(f"{run.path}: already finished, taken as it is")
    content = report.study(task, runs, winners.sweeps, origins)
    written = report.write(content, folder)
    if not options.quiet:
        for table in results_tables(content, console().width):
            show(table)
        for run in runs:
            show_divergence(run)
        tell("".join(answer(content)))
    if with_page:
        written += files.write_report(content, record_best(content), page)[-1:]
    _say_what_was_written(options, begun, written)


def _extent(options: argparse.Namespace, usual: tuple[int, int]) -> tuple[int, int]:
    """Trials and episodes, as asked for or as usual."""
    trials = usual[0] if options.trials is None else options.trials
    return trials, usual[1] if options.episodes is None else options.episodes


class _Winners(NamedTuple):
    """The settings of a study, by algorithm, and where they were found."""

    settings: Mapping[str, dict[str, Any]] | None = None  # None: those that training starts from
    sweeps: tuple[Sweep, ...] = ()
    origins: Mapping[Path, str] = MappingProxyType({})


def _winners(options: argparse.Namespace, task: Task, folder: Path, trials: int, episodes: int) -> _Winners:
    """The settings that the options ask for; with --full they are searched, if that was not done before."""
    if not options.full:
        _refuse(options, "nothing without --full", "search", "rule")
        if options.preset is None:
            return _Winners()
        return _Winners({name: settings_of_preset(task.environment, name, options.preset) for name in COMPARED})
    _refuse(options, "nothing with --full, which searches", "preset")
    from mean_actor_critic.studies.reproduce import require_same_study

    # before hours of search, not after them
    require_reporting_seed(options.seed)
    make_experiment(task.environment, "mac", trials, episodes, options.seed, {})
    with folder_for_results(folder):
        require_same_study(folder, trials, episodes, options.seed)
        place = Path(options.search or f"{RUNS}/sweep-{options.study}")
        sweep, origin = carry_out(_papers_plan(task, place, options.rule), place, options.study, options.quiet)
    found = {name: outcome.settings for name, outcome in sweep.winners().items()}
    return _Winners(found, (sweep,), {sweep.path: origin})


def _papers_plan(task: Task, folder: Path, rule: str | None) -> "Plan":
    """Of the search in a folder, if there is one that will do for a study; else the paper's. `rule`: if asked for."""
    from mean_actor_critic.studies.search import make_plan
    from mean_actor_critic.studies.sweep import is_sweep

    if not is_sweep(folder):
        grid = grid_from_json(papers_grid(task.environment))
        plan = make_plan(task.environment, COMPARED, grid, SEARCH_TRIALS, task.episodes, halving=task.halving)
        return plan._replace(rule=rule or plan.rule)
    plan = Sweep.load(folder).plan
    right_steps = plan.grid.fixed.get("max_episode_steps", task.steps) == task.steps
    if plan.environment != task.environment or set(plan.algorithms) != set(COMPARED) or not right_steps:
        allowed = f"a search of {', '.join(COMPARED)} on {task.environment}, {task.steps} steps an episode"
        raise InputError("--search", str(folder), allowed)
    return plan._replace(rule=rule or plan.rule)


# --- games -----------------------------------------------------------------------------------------------------------


def _reproduce_games(options: argparse.Namespace) -> None:
    """The report is written anew whenever a run has finished: all of them together take weeks."""
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    games = _games(options.games or ["all"])
    algorithms = options.algorithms or list(TABLE_2)
    settings = parse_settings(options.set, known_settings(GAMES, algorithms[0]))
    trials = ATARI_TRIALS if options.trials is None else options.trials
    steps = ATARI_STEPS if options.steps is None else options.steps
    kind = "" if options.protocol in (None, "paper") else f"-{options.protocol}"
    folder = Path(options.out or f"{RUNS}/{GAMES}{kind}-{trials}x{steps}-seed{options.seed}")
    page = _page_of(folder)
    from mean_actor_critic.studies.reproduce import atari, reproduce

    begun = time.monotonic()
    parts = atari(games, algorithms, folder, trials, steps, options.seed, options.protocol or "paper", settings)
    from mean_actor_critic.reports.tables import results_tables
    from mean_actor_critic.reports.write import make_report

    with progress_display(options.quiet) as watch:
        for run, reused in reproduce(parts, watch):
            if not reused:
                make_report(folder, page, video=False)
            if not options.quiet:
                say(f"{run.path}: {'already finished, taken as it is' if reused else 'finished'}")
    content, written = make_report(folder, page)
    if not options.quiet:
        for table in results_tables(content, console().width):
            show(table)
        for source in content.sources.runs:
            show_divergence(source.run)
    _say_what_was_written(options, begun, written)


def _games(named: list[str]) -> dict[str, Game]:
    """The games of these names, by name."""
    for name in named:
        if name not in (*ATARI, "all"):
            raise unknown_name("--game", name, [*ATARI, "all"])
    return dict(ATARI) if "all" in named else {name: ATARI[name] for name in named}


# --- the replayed learner --------------------------------------------------------------------------------------------


def _reproduce_modern(options: argparse.Namespace) -> None:
    """The report is written anew whenever a task is done: all of them together take a day or more."""
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    with_page = can_make_page()
    tasks, variants = _named("--task", options.tasks, TASKS), _named("--variant", options.variants, VARIANTS)
    extent = _extent_of_modern(options)
    tasks = _tasks_that_can_run(tasks)
    folder = Path(options.out or f"{RUNS}/{MODERN}{'-quick' if options.quick else ''}-seed{options.seed}")
    page = _page_of(folder)
    from mean_actor_critic.reports.answer import answer, notes
    from mean_actor_critic.reports.content import read
    from mean_actor_critic.reports.files import write_results
    from mean_actor_critic.reports.sources import find_sources
    from mean_actor_critic.reports.tables import results_tables
    from mean_actor_critic.reports.write import make_report
    from mean_actor_critic.studies.reproduce import modern, reproduce

    begun = time.monotonic()
    by_task = modern(tasks, variants, folder, extent)
    last = {parts[-1].path for parts in by_task.values()}
    with progress_display(options.quiet) as watch:
        for run, reused in reproduce([part for parts in by_task.values() for part in parts], watch):
            if not options.quiet:
                say(f"{run.path}: {'already finished, taken as it is' if reused else 'finished'}")
            if with_page and not reused and run.path in last:
                make_report(folder, page, video=False)
    if with_page:
        content, written = make_report(folder, page)
    else:
        content = read(find_sources([folder]))
        written = write_results(content, folder)
    if not options.quiet:
        for table in results_tables(content, console().width):
            show(table)
        for source in content.sources.runs:
            show_divergence(source.run)
        tell("".join(answer(content)))
        for line in notes(content):
            tell(line)
    _say_what_was_written(options, begun, written)


def _named(option: str, asked: list[str] | None, known: Collection[str]) -> list[str]:
    """What was asked for by name, each once and in the usual order; all there is if nothing was."""
    for name in asked or []:
        if name not in known:
            raise unknown_name(option, name, list(known))
    return [name for name in known if asked is None or name in asked]


def _tasks_that_can_run(names: list[str]) -> list[str]:
    """The tasks without those whose package is not installed, each of which is named in a line."""
    missing = {
        name: package
        for name in names
        if (package := TASKS[name].package) is not None and importlib.util.find_spec(package) is None
    }
    if len(missing) == len(names):
        needed = ", ".join(dict.fromkeys(missing.values()))
        raise InputError("--task", " ".join(names), f"a task that can be trained here, without {needed}")
    for name, package in missing.items():
        say(f"mac: {name} is left out, because {package} is not installed")
    return [name for name in names if name not in missing]


def _extent_of_modern(options: argparse.Namespace) -> Extent:
    """How much of the study was asked for."""
    trials, share = (QUICK_TRIALS, QUICK_SHARE) if options.quick else (None, 1.0)
    share = share if options.steps_share is None else options.steps_share
    if not 0 < share <= 1:
        raise InputError("--steps-share", share, "a number above 0, up to 1")
    return Extent(trials if options.trials is None else options.trials, share, options.seed)


# --- theorems --------------------------------------------------------------------------------------------------------


def _reproduce_theorems(options: argparse.Namespace) -> None:
    from mean_actor_critic.gradients.theory import write_theory
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.reports.plots import require_matplotlib
    from mean_actor_critic.reports.write import make_report
    from mean_actor_critic.runs.store import sole_writer

    require_matplotlib()
    with_page = can_make_page()
    from mean_actor_critic.studies.theorems import reproduce

    task = CLASSIC_CONTROL["cart-pole"]
    trials, episodes = _extent(options, (1 if options.quick else THEOREM_TRIALS, task.episodes))
    folder = Path(options.out or f"{RUNS}/{THEOREMS}-{trials}x{episodes}-seed{options.seed}")
    page = _page_of(folder)
    begun = time.monotonic()
    with progress_display(options.quiet) as watch:
        theory = reproduce(task, folder, trials, episodes, options.seed, watch, _command_line(options))
    with sole_writer(folder):
        written = [write_theory(folder, theory)]
    if not options.quiet:
        for line in report.verdicts(theory):
            tell(line)
    if with_page:
        written += make_report(folder, page)[1][-1:]
    _say_what_was_written(options, begun, written)


def _command_line(options: argparse.Namespace) -> str:
    """What was typed, as far as it says what was measured."""
    words = ["mac", "reproduce", THEOREMS, "--seed", str(options.seed)]
    for name in ("trials", "episodes"):
        words += [f"--{name}", str(getattr(options, name))] if getattr(options, name) is not None else []
    return shlex.join(words + (["--quick"] if options.quick else []))


def _say_what_was_written(options: argparse.Namespace, begun: float, written: list[Path]) -> None:
    if not options.quiet:
        tell(f"{time.monotonic() - begun:.0f} s; written: {', '.join(map(str, written))}")


COMMANDS = (Command("reproduce", "Repeat an experiment of the paper.", _add_reproduce_options, reproduce),)

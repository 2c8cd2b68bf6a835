"""Commands about whole studies: reproduce, sweep, gradients, report."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mean_actor_critic.cli import games
from mean_actor_critic.cli.shared import can_make_page, console, is_run, load_player, record_best, show_divergence
from mean_actor_critic.cli.training import EPISODES
from mean_actor_critic.errors import InputError
from mean_actor_critic.files import as_file_name
from mean_actor_critic.progress import progress_display, say
from mean_actor_critic.runs.store import RUNS, make_folder
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.grid import grid_from_json, read_grid
from mean_actor_critic.spec.paper import CLASSIC_CONTROL, SEARCH_TRIALS, Task, papers_grid
from mean_actor_critic.spec.presets import preset, require_reporting_seed
from mean_actor_critic.studies.sweep import Sweep

if TYPE_CHECKING:
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.studies.sweep import Plan

THEOREMS = "theorems"  # what `mac reproduce` calls them


def reproduce(options: argparse.Namespace) -> None:
    """`mac reproduce`."""
    if options.study == games.STUDY:
        return _reproduce_atari(options)
    games.require_no_game_options(options)
    if options.study == THEOREMS:
        return _reproduce_theorems(options)
    from mean_actor_critic.reports import classic_control as report
    from mean_actor_critic.reports import files
    from mean_actor_critic.reports.answer import answer
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    with_page = can_make_page()
    from mean_actor_critic.studies.classic import reproduce, require_same_study

    task = CLASSIC_CONTROL[options.study]
    usual = task.quick if options.quick else (100, task.episodes)
    trials, episodes = (
        usual[i] if asked is None else asked for i, asked in enumerate((options.trials, options.episodes))
    )
    kind = "".join(f"{word}-" for word in ("full" if options.full else None, options.rule, options.preset) if word)
    folder = Path(options.out or f"{RUNS}/{options.study}-{kind}{trials}x{episodes}-seed{options.seed}")
    started = time.monotonic()
    sweeps, winners, origins = [], None, {}
    if options.full:
        if options.preset:
            raise InputError("--preset", options.preset, "nothing with --full, which searches")
        # before hours of search, not after them
        require_reporting_seed(options.seed)
        make_experiment(task.environment, "mac", trials, episodes, options.seed, {})
        make_folder(folder)
        require_same_study(folder, trials, episodes, options.seed)
        place = Path(options.search or f"{RUNS}/sweep-{options.study}")
        sweep, origin = _search(place, _papers_plan(task, place, options.rule), options.study, options.quiet)
        sweeps, origins = [sweep], {sweep.path: origin}
        winners = {name: outcome.settings for name, outcome in sweep.winners().items()}
    elif options.search or options.rule:
        name = "search" if options.search else "rule"
        raise InputError(f"--{name}", getattr(options, name), "nothing without --full")
    elif options.preset is not None:
        winners = {name: preset(task.environment, name, options.preset) for name in ALGORITHMS}
    runs: list[Run] = []
    with progress_display(options.quiet) as watch:
        for run, reused in reproduce(task, folder, trials, episodes, options.seed, watch, winners):
            runs.append(run)
            origins[run.path] = "finished before, taken as it is" if reused else "finished by this command"
            if reused and not options.quiet:
                say(f"{run.path}: already finished, taken as it is")
    content = report.study(task, runs, sweeps, origins)
    written = report.write(content, folder)
    if not options.quiet:
        for table in report.tables(content):
            console().print(table)
        for run in runs:
            show_divergence(run)
        print("".join(answer(content)))
    if with_page:
        written += files.write_report(content, record_best(content, None), folder / "report")[-1:]
    if not options.quiet:
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, written))}")
    return None


def _papers_plan(task: Task, folder: Path, rule: str | None) -> "Plan":
    """Of the search in a folder, if there is one that will do for a study; else the paper's. `rule`: if asked for."""
    from mean_actor_critic.studies.search import make_plan
    from mean_actor_critic.studies.sweep import is_sweep

    if not is_sweep(folder):
        grid = grid_from_json(papers_grid(task.environment))
        plan = make_plan(task.environment, list(ALGORITHMS), grid, SEARCH_TRIALS, task.episodes, halving=task.halving)
        return plan._replace(rule=rule or plan.rule)
    plan = Sweep.load(folder).plan
    right_steps = plan.grid.fixed.get("max_episode_steps", task.steps) == task.steps
    if plan.environment != task.environment or set(plan.algorithms) != set(ALGORITHMS) or not right_steps:
        allowed = f"a search of {', '.join(ALGORITHMS)} on {task.environment}, {task.steps} steps an episode"
        raise InputError("--search", str(folder), allowed)
    return plan._replace(rule=rule or plan.rule)


def _reproduce_atari(options: argparse.Namespace) -> None:
    from mean_actor_critic.reports.atari import show

    started = time.monotonic()
    done = games.reproduce(options)
    if not options.quiet:
        terminal = console()
        terminal.print(show(done.runs, terminal.width))
        for run in done.runs:
            show_divergence(run)
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, done.files))}")


def _reproduce_theorems(options: argparse.Namespace) -> None:
    from mean_actor_critic.gradients.theory import write_theory
    from mean_actor_critic.reports import content, files, sources
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.reports.plots import require_matplotlib
    from mean_actor_critic.runs.store import sole_writer

    require_matplotlib()
    with_page = can_make_page()
    for name in ("full", "search", "rule", "preset"):
        if getattr(options, name):
            raise InputError(f"--{name}", THEOREMS, "nothing: theorems need no search")
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
        written += files.write_report(numbers, record_best(numbers, None), folder / "report")[-1:]
    if not options.quiet:
        print(f"{time.monotonic() - started:.0f} s; written: {', '.join(map(str, written))}")


def gradients(options: argparse.Namespace) -> None:
    """`mac gradients`."""
    from mean_actor_critic.gradients.theory import Theory, write_theory
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.runs.atari_run import AtariRun
    from mean_actor_critic.runs.store import sole_writer
    from mean_actor_critic.spec.atari_experiment import of_episodes

    player = load_player(options.player, None)
    experiment = of_episodes(player.experiment)
    assert not isinstance(player, AtariRun)
    run = player if is_run(player) else None
    if run is None and options.trial is not None:
        raise InputError("--trial", options.trial, "nothing with an agent, which is one trial")
    from mean_actor_critic.engines.devices import versions
    from mean_actor_critic.gradients.claims import claims
    from mean_actor_critic.gradients.moments import frozen_agents, measure_trial, parse_batches

    batches = parse_batches(options.batch_sizes)
    frozen_agents(player, options.trial or 0)  # what cannot be measured, or written, is said before the work
    name = options.player if run else f"{RUNS}/gradients-{as_file_name(Path(options.player).stem)}"
    folder = Path(options.out or name)
    make_folder(folder)
    if run is not None and not run.snapshots and not options.quiet:
        say(f"{options.player}: was trained without --snapshots; only its last state is measured")
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
            console().print(table)
        print(f"written: {file}; mac report {folder} makes a page of it")


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


def sweep(options: argparse.Namespace) -> None:
    """`mac sweep`."""
    from mean_actor_critic.studies.search import make_plan

    if games.is_name_of_game(options.task):
        raise InputError("task", options.task, "one that counts episodes; Atari games take too long to search")
    task = CLASSIC_CONTROL.get(options.task)
    environment = task.environment if task else options.task
    grid = grid_from_json(papers_grid(environment)) if options.grid == "paper" else read_grid(options.grid)
    plan = make_plan(
        environment,
        options.algorithm,
        grid,
        options.trials,
        (task.episodes if task else EPISODES) if options.episodes is None else options.episodes,
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
    sweep = Sweep.load(folder).by(plan.rule)
    summary = folder / "summary.csv"
    report.write_summary(sweep, summary)
    if not quiet:
        console().print(report.winners_table(sweep))
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


def report(options: argparse.Namespace) -> None:
    """`mac report`."""
    on_games = games.runs_to_report(options.paths)
    if on_games:
        from mean_actor_critic.reports.atari import show

        written = games.report(on_games, Path(options.out))
        terminal = console()
        terminal.print(show(on_games, terminal.width))
        print(f"{written[-1]}, and {len(written) - 1} files beside it")
        return
    from mean_actor_critic.reports import content, files, page, plots, sources
    from mean_actor_critic.reports.answer import answer, notes

    plots.require_matplotlib()
    page.require_page()
    found = sources.find_sources(options.paths)
    folder = Path(options.out)
    make_folder(folder)  # what cannot be written is said before the work
    numbers = content.read(found)
    recording = page.Recording("No video was asked for.") if options.no_video else record_best(numbers, options.env)
    written = files.write_report(numbers, recording, folder)
    print("".join(answer(numbers)))
    for line in notes(numbers):
        print(line)
    size = written[-1].stat().st_size / 2**20
    print(f"{written[-1]}: {size:.1f} MB, and {len(written) - 1} files beside it")

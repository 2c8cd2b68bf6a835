"""The command gradients: bias and variance of the estimators in a trained network."""

import argparse
import shlex
from pathlib import Path

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.cli.shared import player_at
from mean_actor_critic.errors import InputError
from mean_actor_critic.files import as_file_name
from mean_actor_critic.progress import progress_display
from mean_actor_critic.runs.store import RUNS, folder_for_results
from mean_actor_critic.terminal import say, show, tell


def _add_gradients_options(parser: argparse.ArgumentParser) -> None:
    shared_options.add_player(
        parser, "a run folder, best one trained with --snapshots, or an agent", "which trial of the run (default: 0)"
    )
    parser.add_argument(
        "--batch-sizes", metavar="N,N", default="1,16,episode",
        help="numbers of independent states; episode: whole episodes; update: episodes as training averages them "
        "(default: 1,16,episode)",
    )  # fmt: skip
    parser.add_argument("--replicates", type=int, default=1000, help="estimates of each kind (default: 1000)")
    parser.add_argument("--out", metavar="DIR", help="(default: the run folder, or a new one in runs/ for an agent)")
    shared_options.add_workers(parser)
    shared_options.add_quiet(parser)


def gradients(options: argparse.Namespace) -> None:
    """`mac gradients`."""
    from mean_actor_critic.gradients.theory import Theory, write_theory
    from mean_actor_critic.reports import theory as report
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.runs.store import sole_writer

    player = player_at(options.player, None)
    run = player if isinstance(player, Run) else None
    if run is None and options.trial is not None:
        raise InputError("--trial", options.trial, "nothing with an agent, which is one trial")
    from mean_actor_critic.engines.devices import versions
    from mean_actor_critic.gradients.claims import claims
    from mean_actor_critic.gradients.moments import frozen_agents, measure_trial, parse_batches

    batches = parse_batches(options.batch_sizes)
    frozen_agents(player, options.trial or 0)  # what cannot be measured, or written, is said before the work
    name = options.player if run else f"{RUNS}/gradients-{as_file_name(Path(options.player).stem)}"
    folder = Path(options.out or name)
    with folder_for_results(folder):
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
            versions=versions(player.experiment.engine),
            trials=(trial,),
            curves=(),
            problems=0,
            claims=claims(None, (trial,)),
        )
        with sole_writer(folder):
            file = write_theory(folder, theory)
    if not options.quiet:
        for table in report.tables(theory):
            show(table)
        tell(f"written: {file}; mac report {folder} makes a page of it")


def _command_line(options: argparse.Namespace) -> str:
    """What was typed, as far as it says what was measured."""
    words = ["mac", "gradients", options.player, "--batch-sizes", options.batch_sizes]
    words += ["--replicates", str(options.replicates), "--seed", str(options.seed)]
    return shlex.join(words + (["--trial", str(options.trial)] if options.trial is not None else []))


COMMANDS = (
    Command(
        "gradients", "Measure bias and variance of every policy-gradient estimator.", _add_gradients_options, gradients
    ),
)

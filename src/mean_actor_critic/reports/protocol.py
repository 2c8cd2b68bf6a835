"""How to get the same again: commands, seeds, versions and where everything came from."""

import itertools
import shlex
from collections.abc import Sequence

from mean_actor_critic._version import __version__
from mean_actor_critic.reports import variants
from mean_actor_critic.reports.content import Content
from mean_actor_critic.reports.digits import in_millions
from mean_actor_critic.reports.entries import Entry, extent
from mean_actor_critic.reports.games import PAPERS_STEPS
from mean_actor_critic.reports.search import is_papers_grid
from mean_actor_critic.reports.sheets import Sheet
from mean_actor_critic.reports.sources import RunSource, place_of, title_of_game, title_of_task
from mean_actor_critic.reports.statistics import FEWEST
from mean_actor_critic.spec import modern
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.checks import kwargs_as_words, settings_as_words
from mean_actor_critic.spec.experiment import Experiment, make_experiment
from mean_actor_critic.spec.paper import ATARI_TRIALS, CLASSIC_CONTROL
from mean_actor_critic.spec.presets import PRESETS, SEARCH_SEEDS, TUNED, settings_of_preset
from mean_actor_critic.studies.sweep import Plan
from mean_actor_critic.terminal import printable


def method(content: Content) -> list[str]:
    """How the numbers were made, a paragraph each."""
    lines = [f"Environment{'s' if content.tasks else ''}: {_environments(content)}."]
    if content.games:
        lines += _method_on_games()
    elif content.tasks:
        lines += variants.method()
    elif content.entries:
        counts = sorted({entry.source.run.experiment.trials for entry in content.entries})
        lines.append(
            f"A trial is a training by itself. Each run has {' or '.join(map(str, counts))} of them. Returns are "
            "those of the training itself, undiscounted, with actions sampled from the policy. The unit of all "
            "statistics is the trial: first its mean over episodes, then everything over trials. The bands of the "
            "learning curves are Student’s intervals of each point’s mean, and of its trimmed mean for the IQM. No "
            "interval or band goes beyond the values of the trials; of fewer than "
            f"{FEWEST} trials, the smallest and the largest value are shown instead. Curves by steps are means of "
            "the episodes that ended within equal numbers of agent steps."
        )
        if any(result.paired for result in content.answer if result.ahead):
            lines.append(
                "Trials of one number begin alike in all runs of a seed and engine: with the same first states and "
                "random draws, and where networks are of one shape, with the same weights. Comparisons with MAC allow "
                "for it."
            )
        lines.append(
            "A trial that diverges is put back to before that episode, plays on without learning, and counts: no trial "
            "is left out."
        )
    if content.sources.task:
        lines.append("The paper does not say over how many episodes its means run, nor what its “±” is.")
    return lines


def _environments(content: Content) -> str:
    """What the runs are on, in words."""
    places = [(on.title, str(place_of(on.results[0].entry.run.experiment))) for on in content.tasks]
    named = [printable(place if place == title else f"{title}, {place}") for title, place in places]
    return "; ".join(named) or content.sources.environment


def _method_on_games() -> list[str]:
    return [
        "A trial is a training by itself. Training stops now and then for an evaluation: whole games with actions "
        "sampled from the policy, whose raw scores are shown; rewards that were clipped for learning do not count. "
        "Steps are agent steps, each of which is several frames of the game. The unit of all statistics is the trial: "
        "first the mean score of its games, then everything over trials. Of one trial, everything is over its games, "
        "and n says so. No interval or band goes beyond the values; of fewer than "
        f"{FEWEST}, the smallest and the largest are shown instead.",
        "A trial that diverges is put back to before that update, plays on without learning, and counts: no trial is "
        "left out. A game that an evaluation’s steps cut off counts with its score so far.",
        f"The paper’s numbers are means of {ATARI_TRIALS} trials after {in_millions(PAPERS_STEPS)} agent steps. "
        "Settings that differ from the paper’s are in the notes of the table.",
    ]


def seeds(content: Content) -> str:
    """The seeds of results and searches."""
    runs: dict[str, list[str]] = {}
    for label, entry in _named(content):
        experiment = entry.run.experiment
        last = experiment.first_trial + experiment.trials - 1
        numbers = f"trials {experiment.first_trial} to {last}" if experiment.trials > 1 else f"trial {last}"
        trials = f"seed {experiment.seed}, {numbers}"
        runs.setdefault(trials, []).append(label)
    parts = [
        f"Results: {trials}" + (f" ({', '.join(labels)})." if len(runs) > 1 else ".") for trials, labels in runs.items()
    ]
    parts += [f"Search: seed {search.plan.seed}." for search in content.searches]
    if content.tasks:
        parts.append(f"The general setting was found with seeds from {modern.TUNED_FROM}.")
    return " ".join([*parts, f"Searches use seeds from {SEARCH_SEEDS.start}, results those below: they never meet."])


def commands(content: Content, grids: Sequence[str]) -> list[str]:
    """What to type to get the same again; `grids` name the files that hold the grids of searches."""
    sweeps = [sweep_command(search.plan, grid) for search, grid in zip(content.searches, grids, strict=True)]
    theories = [source.theory.command for source in content.sources.theories]
    return [*run_commands(content.sources.runs), *sweeps, *theories]


def settings(content: Content) -> Sheet | None:
    """The settings of each run; None without runs."""
    rows = []
    told: dict[str, str] = {}
    for label, entry in _named(content):
        words = " ".join(settings_as_words(entry.run.experiment.settings()))
        rows.append([label, entry.run.manifest.origin or "–", told.get(words, words)])
        told.setdefault(words, f"as {label}")
    return Sheet("Settings of each run", ["Algorithm", "origin", "settings"], rows, left=3) if rows else None


def _named(content: Content) -> list[tuple[str, Entry]]:
    """The runs by their labels, with the game where there are several."""
    if len(content.panels) < 2:
        return [(entry.label, entry) for entry in content.entries]
    return [(f"{on.title}: {result.entry.label}", result.entry) for on in content.panels for result in on.results]


def origins(content: Content) -> Sheet:
    """Where each part came from."""
    columns = ["path as given", "what", "begun", "so far", "digest", "note"]
    rows = []
    seen: dict[str, str] = {}
    unfinished = {entry.source.run.path: entry.unfinished for entry in content.entries}
    told = content.sources.origins or {}
    for source in content.sources.runs:
        run, digest = source.run, source.run.digest
        note = unfinished.get(run.path, "has only begun") or told.get(run.path, "finished")
        note += f", the same results as {seen[digest]}" if digest in seen else ""
        seen.setdefault(digest, source.name)
        experiment = run.experiment
        title = title_of_game(experiment.environment) if source.on_game else title_of_task(experiment)
        where = f" on {title}" if content.panels else ""
        what = f"run, {algorithm_of(source.algorithm).title}{where}, {experiment.engine} engine"
        rows.append([source.name, what, run.manifest.created, extent(run), digest[:16], note])
    for search in content.searches:
        last = search.plan.rungs[-1]
        digest = search.sweep.results_digest[:16]
        note = search.unfinished or told.get(search.sweep.path, "finished")
        rows.append([search.source.name, "sweep", search.sweep.created, f"{last.episodes} episodes", digest, note])
    for name, theory in content.sources.theories:
        rows.append([name, "measurements of estimators", "", "", "", f"{len(theory.trials)} trials"])
    return Sheet("What this page was made from", columns, [[cell or "–" for cell in row] for row in rows], left=3)


def versions(content: Content) -> Sheet:
    """Of what the runs and sweeps were made with; a name with more than one version has them all."""
    made = [source.run.manifest.versions for source in content.sources.runs]
    made += [search.sweep.versions for search in content.searches]
    made += [dict(source.theory.versions) for source in content.sources.theories]
    found: dict[str, dict[str, None]] = {}
    for name, version in itertools.chain.from_iterable(versions.items() for versions in made):
        found.setdefault(name, {})[version or "–"] = None
    rows = [[name, ", ".join(versions)] for name, versions in found.items()]
    return Sheet("What the numbers depend on", ["", "version"], [*rows, ["this page", __version__]], left=2)


# --- commands --------------------------------------------------------------------------------------------------------


def run_commands(runs: Sequence[RunSource]) -> list[str]:
    """The commands that train these runs: one for a whole study as `mac reproduce` has it, else one for each."""
    left = [(source.run.experiment, source.run.manifest.snapshots) for source in runs]
    commands = []
    for command, parts in _modern_studies([experiment for experiment, snapshots in left if not snapshots]):
        commands.append(command)
        left = [run for run in left if run[0] not in parts]
    for experiment, _ in [*left]:
        study = _study_with(experiment)
        if study is not None and all((part, ()) in left for part in study[1]):
            commands.append(study[0])
            for part in study[1]:
                left.remove((part, ()))
    return [*commands, *(train_command(experiment, snapshots) for experiment, snapshots in left)]


def _modern_studies(experiments: Sequence[Experiment]) -> list[tuple[str, list[Experiment]]]:
    """The studies of the replayed learner of which all parts are there: the command, and the experiments, of each."""
    places = [(place, experiment) for experiment in experiments if (place := modern.place_of(experiment)) is not None]
    studies: dict[tuple[int, float, int | None], dict[tuple[str, str], Experiment]] = {}
    for (task, variant, asked), experiment in places:
        studies.setdefault((asked.seed, asked.share, asked.trials), {})[task, variant] = experiment
    found = []
    for (seed, share, trials), parts in studies.items():
        tasks = [name for name in modern.TASKS if any(name == task for task, _ in parts)]
        kinds = [name for name in modern.VARIANTS if any(name == variant for _, variant in parts)]
        if len(parts) < 2 or len(parts) < len(tasks) * len(kinds):
            continue
        words = ["mac", "reproduce", "modern"]
        words += ["--task", *tasks] if len(tasks) < len(modern.TASKS) else []
        words += ["--variant", *kinds] if len(kinds) < len(modern.VARIANTS) else []
        words += ["--trials", str(trials)] if trials is not None else []
        words += ["--steps-share", f"{share:g}"] if share != 1 else []
        found.append((shlex.join([*words, "--seed", str(seed)]), list(parts.values())))
    return found


def train_command(experiment: Experiment, snapshots: Sequence[int] = ()) -> str:
    """`mac train` with every setting, so that it does not depend on presets, and with the same snapshots."""
    words = ["mac", "train", experiment.environment, "--algorithm", experiment.algorithm]
    words += ["--trials", str(experiment.trials), f"--{experiment.budget.unit}", str(experiment.budget.amount)]
    words += ["--seed", str(experiment.seed), "--engine", experiment.engine, "--learner", experiment.learner]
    if experiment.until is not None:
        words += ["--until", str(experiment.until)]
    if experiment.first_trial:
        words += ["--first-trial", str(experiment.first_trial)]
    if experiment.environment_kwargs:
        words += ["--env-kwargs", *kwargs_as_words(experiment.environment_kwargs)]
    if snapshots:  # a number alone would say how many
        words += ["--snapshots", ",".join(map(str, snapshots if len(snapshots) > 1 else [*snapshots, *snapshots]))]
    return shlex.join([*words, "--set", *settings_as_words(experiment.settings())])


def _study_with(experiment: Experiment) -> tuple[str, list[Experiment]] | None:
    """The study of the paper that an experiment belongs to: its command, and the experiments of all algorithms."""
    if experiment.episodes is None:
        return None
    for (name, task), presets in itertools.product(CLASSIC_CONTROL.items(), PRESETS):
        if task.environment not in PRESETS[presets]:
            continue
        parts = [
            make_experiment(
                task.environment,
                algorithm,
                experiment.trials,
                experiment.budget,
                experiment.seed,
                {"max_episode_steps": task.steps, **settings_of_preset(task.environment, algorithm, presets)},
                engine=experiment.engine,
            )
            for algorithm in task.scores
        ]
        if experiment in parts:
            words = [] if presets == TUNED else ["--preset", presets]
            words += ["--trials", str(experiment.trials), "--episodes", str(experiment.episodes)]
            return shlex.join(["mac", "reproduce", name, *words, "--seed", str(experiment.seed)]), parts
    return None


def sweep_command(plan: Plan, grid_file: str) -> str:
    """`mac sweep`, with the grid in a file unless it is the paper's."""
    last = plan.rungs[-1]
    task = next((name for name, task in CLASSIC_CONTROL.items() if task.environment == plan.environment), None)
    words = ["mac", "sweep", task or plan.environment, "--algorithm", *plan.algorithms]
    words += [] if is_papers_grid(plan) else ["--grid", grid_file]
    words += ["--trials", str(last.trials), "--episodes", str(last.episodes), "--rule", plan.rule]
    if len(plan.rungs) > 1:
        words += ["--halving", "trials" if plan.rungs[0].episodes == last.episodes else "episodes"]
    return shlex.join([*words, "--seed", str(plan.seed)])

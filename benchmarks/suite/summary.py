"""What came out, as it is committed: every evaluation as a line of a file, and a page of tables."""

import csv
import io
import itertools
from collections.abc import Iterable
from pathlib import Path

from benchmarks.harness import mean, rate, table, write_section
from benchmarks.suite.jobs import Done, as_csv
from benchmarks.suite.methods import METHODS, Look
from mean_actor_critic.files import write_whole
from mean_actor_critic.reports.digits import decimals, interval, rounded
from mean_actor_critic.reports.statistics import summarise

HEAD = """# The comparison on tasks

Our learner at its one setting, and other packages' algorithms with their defaults and with the settings that RL
Baselines3 Zoo publishes for each task ([what these are](../../benchmarks/suite/zoo.py)). Equal steps, one machine.

```
python -m benchmarks suite --commit-to results/suite      # resumable; days, all of it: see --help
```

- *Greedy* is the most probable action, or that of the highest value; *sampled* is as in training, with the ε of that
  moment where an algorithm has one. 20 episodes each, at every evaluation of every seed. The numbers are those of the
  evaluation after the last step, whatever came before; *worst* is the worst seed.
- All play the original environments by the same limits of an episode's steps, and see the image of MiniGrid's only.
  Ours plays its own programs of them where it has some, which are tested against the originals.
- No algorithm gets a step more than the budget. PPO learns at the ends of rollouts: steps after the last whole one are
  lost to it, which are many where the zoo has long rollouts and a budget of its own of a million.
- Speed is in CPU seconds, of all threads and worker processes, because other programs were running on the machine, of
  the machine that a seed was run on: the file of evaluations is taken up wherever the command is run next.
- sbx is installed by hand (`pip install sbx-rl`), because it brings along a nightly build of another package. CleanRL
  is left out: it is scripts and no library, and what the package index has of it asks for the old `gym`.

`evaluations.csv` has every evaluation of every seed.
"""
RESULTS, EVALUATIONS = "README.md", "evaluations.csv"


def write(finished: Iterable[Done], folder: Path, where: str) -> None:
    """Write every evaluation, and the tables of the tasks that there is something of, in place of those before.

    Args:
        finished: jobs and what came out of them, those of a task together.
        folder: where to.
        where: on what machine and with which versions they were run.
    """
    finished = list(finished)
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(as_csv(finished))
    write_whole(folder / EVALUATIONS, text.getvalue().encode())
    for section in (f"## Machine\n\n{where}\n", *sections(finished)):
        write_section(folder / RESULTS, section, HEAD)


def sections(finished: Iterable[Done]) -> list[str]:
    """One for each task: what every method came to, and on the way."""
    tasks = itertools.groupby(finished, lambda done: done[0].task)
    return [_section(task, list(of_task)) for task, of_task in tasks]


def _section(task: str, finished: list[Done]) -> str:
    by_method = itertools.groupby(finished, lambda done: done[0].method)
    runs = {METHODS[method].title: [looks for _, looks in of_method] for method, of_method in by_method}
    places = decimals(score for _, looks in finished for score in (looks[-1].greedy, looks[-1].sampled))
    at_end = [
        [title, str(len(seeds)), *_cells(seeds, "greedy", places), *_cells(seeds, "sampled", places), _speed(seeds)]
        for title, seeds in runs.items()
    ]
    on_the_way = [
        [title, *(rounded(mean(look.greedy for look in looks), places) for looks in zip(*seeds, strict=True))]
        for title, seeds in runs.items()
    ]
    *_, budget = moments = [look.steps for look in finished[0][1]]
    beside = ("95 % interval", "worst")
    end = table(["", "seeds", "greedy", *beside, "sampled", *beside, "steps / CPU s"], at_end)
    way = table(["greedy after", *(f"{steps:,}" for steps in moments)], on_the_way)
    return f"## {task}\n\nAfter {budget:,} steps:\n\n{end}\n\nOn the way:\n\n{way}\n"


def _cells(seeds: list[list[Look]], kind: str, places: int) -> list[str]:
    """Of the last evaluations of a kind: mean, interval and worst."""
    scores = [getattr(looks[-1], kind) for looks in seeds]
    summary = summarise(scores)
    return [rounded(summary.mean, places), interval(summary, places), rounded(min(scores), places)]


def _speed(seeds: list[list[Look]]) -> str:
    """Training steps in a second of one core, compilation included and evaluations not."""
    return rate(mean(looks[-1].steps / looks[-1].cpu_seconds for looks in seeds))

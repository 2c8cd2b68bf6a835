"""Jobs: one seed of one method on one task, each in a process of its own, each with a file of what came out."""

import csv
import itertools
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import in_new_process, log
from benchmarks.suite.methods import METHODS, Look, Size, learn
from benchmarks.suite.tasks import TASKS
from mean_actor_critic.files import as_file_name, write_whole

Done = tuple["Job", list[Look]]


class Job(NamedTuple):
    """What is run at once, or not at all."""

    task: str
    method: str
    seed: int

    def file(self, folder: Path) -> Path:
        """Where its looks are, once it is done."""
        return folder / as_file_name(self.task) / self.method / f"{self.seed}.json"

    def looks(self, folder: Path) -> list[Look] | None:
        """What came out of it; None before it is done."""
        file = self.file(folder)
        return [Look(*look) for look in json.loads(file.read_text())] if file.exists() else None

    def keep(self, folder: Path, looks: list[Look]) -> None:
        """Note that it is done, and what came out of it."""
        file = self.file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(looks).encode())


def planned(tasks: Iterable[str], methods: Iterable[str], seeds: int) -> Iterator[Job]:
    """A job for every seed of every method on every task, task by task; all methods have a seed before the next one."""
    for task, seed, method in itertools.product(tasks, range(seeds), methods):
        if METHODS[method].settings(TASKS[task]) is not None:
            yield Job(task, method, seed)


def as_csv(finished: Iterable[Done]) -> Iterator[list[str]]:
    """Every evaluation as a line, and before them the names of the columns."""
    yield [*Job._fields, *Look._fields]
    for job, looks in finished:
        for look in looks:
            yield [*map(str, job), str(look.steps), *(f"{value:.6g}" for value in look[1:])]


def take_up(evaluations: Path, folder: Path) -> None:
    """Put jobs whose evaluations were written into a file, on whatever machine, among those done in a folder."""
    if not evaluations.exists():
        return
    with evaluations.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for (task, method, seed), of_job in itertools.groupby(lines, lambda line: [line[name] for name in Job._fields]):
        looks = [
            Look(int(line["steps"]), *(float(line[name]) for name in Look._fields if name != "steps"))
            for line in of_job
        ]
        job = Job(task, method, int(seed))
        if job.looks(folder) is None:
            job.keep(folder, looks)


def done(folder: Path) -> Iterator[Done]:
    """Those that are done in a folder and what came out of them, in the order of the tables of tasks and methods."""
    for task, method in itertools.product(TASKS, METHODS):
        files = Job(task, method, seed=0).file(folder).parent.glob("*.json")
        for job in sorted(Job(task, method, int(file.stem)) for file in files):
            yield job, job.looks(folder) or []


def run(jobs: Iterable[Job], folder: Path, at_once: int, size: Size) -> list[Job]:
    """Run those jobs that are not done; returns those that failed, which do not stop the others."""
    todo, failed = [job for job in jobs if job.looks(folder) is None], []
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(in_new_process, learn, {**job._asdict(), **size._asdict()}): job for job in todo}
        try:
            for count, future in enumerate(as_completed(running), start=1):
                job = running[future]
                try:
                    looks = [Look(*look) for look in future.result()]
                except RuntimeError as reason:
                    log(str(reason))
                    failed.append(job)
                    continue
                job.keep(folder, looks)
                log(f"{count} of {len(todo)}: {job.task}, {job.method}, seed {job.seed}: {looks[-1]}")
        except BaseException:
            pool.shutdown(cancel_futures=True)  # those that have not begun
            raise
    return failed

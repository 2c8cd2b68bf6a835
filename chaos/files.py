"""Files from strangers: damaged, forged and sealed again, foreign or bloated, through every reader there is.

One of our errors in one line may come of them, or what was written; nothing else, in little time and memory.
"""

import contextlib
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import corpus, forgery
from chaos.harness import Attempt, Budget, Kind
from chaos.tally import LOST, TRACEBACK, Finding, Tally
from chaos.workers import Try, in_workers

NAME = "files"
LONGEST = 20_000  # characters of a message
SAMPLE = 20  # of so many files that readers take, one is looked at by all that comes after, such as tables
PLANNED = 50  # the same for the plan to go on with a run, which has JAX look at shapes


def run(budget: Budget, seed: int) -> Tally:
    """Damage files and read them."""
    made(budget.folder)
    return in_workers("chaos.files", NAME, budget, seed)


KIND = Kind(NAME, "a damaged, forged or foreign file, through the readers of its kind", 20_000, 0.2, run)


def made(folder: Path, *words: str) -> Path:
    """True files to damage, made once for a campaign; with the words of `corpus.py`."""
    place = folder / "corpus"
    if not (place / "made").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        script = Path(__file__).parent / "corpus.py"
        done = subprocess.run([sys.executable, script, place, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the files to damage could not be made: {done.stderr[-2000:]}")
        (place / "made").touch()
    return place


def make_try(folder: Path) -> Try:
    """For a worker: what an attempt does."""
    from mean_actor_critic.errors import MacError

    own = folder / "files"
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(folder.parent / "corpus", own)
    true: list[tuple[str, Path, bytes]] = []
    for pattern, kind in corpus.FILES.items():
        true += [(kind, file, file.read_bytes()) for file in sorted(own.glob(pattern))]
    whole = {file: READERS[kind](file) for kind, file, _ in true}
    for kind, file, _ in true:  # what is slow the first time, and takes memory for good
        with contextlib.suppress(MacError):  # not everything makes a report
            _look(kind, file)
        if kind == "manifest":
            _plan(file.parent)
            _list(file.parent)
    spoiled: list[tuple[Path, bytes]] = []

    def attempt(this: Attempt) -> list[Finding]:
        while spoiled:  # what the one before has left
            file, content = spoiled.pop()
            file.write_bytes(content)
        kind, file, content = this.random.choice(true)
        how = this.random.choices(("damaged", "forged", "foreign", "bloated", "mixed up"), (450, 500, 30, 2, 18))[0]
        spoiled.append((file, content))
        file.write_bytes(altered(how, content, [c for _, _, c in true], this))
        return read_again(this, kind, file, whole[file] if how == "damaged" and kind != "grid" else None, how)

    return attempt


def altered(how: str, content: bytes, others: list[bytes], this: Attempt) -> bytes:
    """What becomes of a file."""
    if how == "damaged":
        return forgery.damaged(content, this.random)
    if how == "foreign":
        return forgery.foreign(this.random)
    if how == "bloated":
        return forgery.bloated(content, this.random)
    if how == "mixed up":
        return this.random.choice(others)
    forge = forgery.forged_document if content[:1] == b"{" else forgery.forged_arrays
    return forge(content, this.random)


def read_again(this: Attempt, kind: str, file: Path, whole: object, how: str) -> list[Finding]:
    """Read an altered file by all that reads such files; a damaged one must be as it was, if it is taken."""
    from mean_actor_critic.errors import MacError

    findings: list[Finding] = []
    try:
        there = READERS[kind](file)
        if whole is not None and there != whole:
            findings.append(this.found(LOST, f"{kind}: damage was not noticed", there))
        if this.random.randrange(SAMPLE) == 0:
            _look(kind, file)
        if this.random.randrange(PLANNED) == 0 and kind in ("manifest", "checkpoint"):
            _plan(file.parent)
    except MacError as fault:
        findings += of_message(this, str(fault), f"{kind}, {how}")
    if kind in ("manifest", "checkpoint", "sweep", "cell") and this.random.randrange(SAMPLE) == 0:
        _list(file.parent.parent if kind == "cell" else file.parent)
    return findings


def of_message(this: Attempt, message: str, where: str) -> list[Finding]:
    """What is wrong with the words of an error: they are one line that can be shown, and not too long."""
    if len(message) > LONGEST:
        return [this.found(TRACEBACK, f"{where}: a message of more than {LONGEST} characters", message[:300])]
    if not message.isprintable() or not message:
        return [this.found(TRACEBACK, f"{where}: a message that is not one printable line", ascii(message))]
    return []


# --- readers ---------------------------------------------------------------------------------------------------------


def _manifest(file: Path) -> object:
    from mean_actor_critic.runs import store
    from mean_actor_critic.runs.run import Run

    manifest = store.read_manifest(file.parent)
    run = Run.load(file.parent)
    return repr(manifest), run.status, run.digest


def _checkpoint(file: Path) -> object:
    from mean_actor_critic.runs.run import Run

    run = Run.load(file.parent)
    for episode in (None, *run.snapshots):
        run.agent(0, episode)
    return run.digest, run.status, run.finished, run.latest.tobytes(), repr(run)


def _agent(file: Path) -> object:
    import numpy as np

    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.trees import named

    agent = Agent.load(file)
    arrays = {name: np.asarray(x).tobytes() for name, x in named(agent.networks).items()}
    return repr(agent), arrays, repr(agent.spaces)


def _sweep(file: Path) -> object:
    from mean_actor_critic.studies.sweep import Sweep

    sweep = Sweep.load(file.parent)
    return sweep.plan.to_json(), sweep.digest, len(sweep.outcomes()), list(sweep.winners())


def _cell(file: Path) -> object:
    from mean_actor_critic.studies.sweep import Sweep

    sweep = Sweep.load(file.parent.parent)
    return sweep.results_digest, len(sweep.outcomes()), sweep.seconds


def _theory(file: Path) -> object:
    from mean_actor_critic.gradients.theory import read_theory

    return repr(read_theory(file.parent))


def _grid(file: Path) -> object:
    from mean_actor_critic.spec.grid import read_grid

    grid = read_grid(file)
    return [grid.points(algorithm) for algorithm in ("mac", "reinforce")]


READERS: dict[str, Callable[[Path], Any]] = {
    "manifest": _manifest, "checkpoint": _checkpoint, "agent": _agent, "sweep": _sweep, "cell": _cell,
    "theory": _theory, "grid": _grid,
}  # fmt: skip


def _look(kind: str, file: Path) -> None:
    """All that is made of a file that was read."""
    import numpy as np

    from mean_actor_critic.gradients.theory import read_theory
    from mean_actor_critic.reports import search, tables, theory
    from mean_actor_critic.reports.sources import find_sources
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.studies.sweep import Sweep

    if kind in ("manifest", "checkpoint"):
        run = Run.load(file.parent)
        for unit, of in itertools.product(("episodes", "steps"), ("training", "evaluations", "greedy evaluations")):
            if of == "training" or (run.experiment.evaluations and unit == run.experiment.budget.unit):
                run.curve(unit, of)
        _shown(tables.run_table(run))
        repr(run), run._repr_html_()
    elif kind == "agent":
        agent = Agent.load(file)
        repr(agent), agent._repr_html_()
        if agent.spaces.observation_size < 10**5:
            with np.errstate(all="ignore"):
                agent.spaces.observation.seed(0)
                agent.predict(agent.spaces.observation.sample())
    elif kind in ("sweep", "cell"):
        sweep = Sweep.load(file.parent if kind == "sweep" else file.parent.parent)
        if sweep.outcomes():
            _shown(search.winners_table(sweep))
            search.extent(sweep)
    elif kind == "theory":
        measured = read_theory(file.parent)
        list(theory.verdicts(measured))
        for table in theory.tables(measured):
            _shown(table)
    if kind != "grid" and kind != "agent":
        find_sources([file.parent.parent if kind == "cell" else file.parent])


def _plan(folder: Path) -> None:
    """What resume does before it begins."""
    from mean_actor_critic.engines.memory import need
    from mean_actor_critic.runs import store

    manifest = store.read_manifest(folder)
    if manifest.experiment.trials <= 10_000:
        need(manifest.experiment, manifest.spaces, manifest.snapshots)
    store.read_checkpoint(folder, manifest)


def _list(folder: Path) -> None:
    """`mac runs`, which nothing in a folder may stop."""
    from mean_actor_critic.reports.tables import runs_table

    table, _ = runs_table(folder)
    _shown(table)


def _shown(table: Any) -> None:
    """A table as it goes to a terminal."""
    from rich.console import Console

    with open("/dev/null", "w") as nowhere:
        Console(file=nowhere, width=140).print(table)

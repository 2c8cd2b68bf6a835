"""Which environments there are, which engine plays them, and what they look like from outside. Imports no JAX."""

import dataclasses
import difflib
import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from mean_actor_critic.environments import atari
from mean_actor_critic.environments.hosted import checker, fleet, worker
from mean_actor_critic.environments.hosted.factory import Factory, place_of
from mean_actor_critic.environments.spaces import Spaces, check_spaces, spaces_from_json
from mean_actor_critic.errors import EnvironmentFault, InputError, MacError
from mean_actor_critic.spec.atari_experiment import GAME
from mean_actor_critic.spec.experiment import ENGINES, Experiment, unknown_name

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


def _cart_pole() -> Any:
    from mean_actor_critic.environments.compiled.cart_pole import CartPole

    return CartPole()


_CART_POLE_SPACES = Spaces(
    gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32),
    gymnasium.spaces.Discrete(2),
)
COMPILED = {
    "CartPole-v0": EnvironmentSpec("CartPole-v0", "compiled", _CART_POLE_SPACES, 200, _cart_pole),
    "CartPole-v1": EnvironmentSpec("CartPole-v1", "compiled", _CART_POLE_SPACES, 500, _cart_pole),
}

# Packages that an environment may lack, and the extra of this one that brings them.
_EXTRAS = {"box2d": "box2d", "pygame": "box2d"}


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
    if engine not in (AUTO, *ENGINES):
        raise unknown_name("engine", engine, (AUTO, *ENGINES))
    kwargs = kwargs or {}
    if _is_functional(environment):
        return _functional(environment, engine, kwargs, max_episode_steps)
    if isinstance(environment, str) and environment in COMPILED and engine != "hosted" and not kwargs:
        spec = COMPILED[environment]
        return spec._replace(max_episode_steps=max_episode_steps or spec.max_episode_steps)
    name = _name_of(environment)
    if engine == "compiled":
        programs = ", ".join(COMPILED)
        raise InputError("engine", "compiled", f"hosted for {name}; compiled plays JAX programs: {programs}, a FuncEnv")
    return _hosted(name, Factory(environment, dict(kwargs), max_episode_steps), max(seconds, fleet.START_SECONDS))


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
    spaces = check_spaces(name, environment.observation_space, environment.action_space)
    if spaces.first_action != 0:
        raise InputError(
            "environment", name, f"a Discrete action space that starts at 0; this one's is {spaces.action}"
        )
    if not isinstance(spaces.observation, gymnasium.spaces.Box) or len(spaces.observation.shape) != 1:
        raise InputError(
            "environment", name, f"a Box observation space of one dimension; this one's is {spaces.observation}"
        )
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
    if environment.name in COMPILED or (environment.engine == "hosted" and ":" not in environment.name):
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
        known = {known.lower(): known for known in gymnasium.registry}
        if atari.is_installed():  # whose names are long: Pong-v5 and pong are ALE/Pong-v5
            for game in atari.games():
                bare = game.lower().removeprefix(GAME.lower())
                known |= dict.fromkeys((game.lower(), bare, bare.removesuffix("-v5")), game)
        close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        guess = f" (did you mean {known[close[0]]}?)" if close else ""
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
    setup = experiment.setup
    if given is None and experiment.engine == "compiled" and setup.environment not in COMPILED:
        raise InputError(
            "environment", setup.environment, "one that is given: only you have this functional environment"
        )
    if given is None and ":" in setup.environment:
        allowed = "one that you give yourself, because no file may say which program runs here"
        how = (
            f": --env {shlex.quote(setup.environment)}"
            if is_importable(setup.environment)
            else ": resume(path, environment)"
        )
        raise InputError("environment", setup.environment, allowed + how)
    spec = find_environment(
        setup.environment if given is None else given,
        experiment.engine,
        experiment.environment_kwargs,
        setup.max_episode_steps,
        seconds,
    )
    if spec.name != setup.environment:
        raise InputError("environment", spec.name, f"the one that training began with, {setup.environment}")
    if json.dumps(spec.spaces.to_json()) != json.dumps(spaces.to_json()):  # as text: the order of a Dict matters
        raise InputError("environment", spec.name, f"one with the spaces that training began with: {spaces}")
    return spec


def watchable(spec: EnvironmentSpec, kwargs: Mapping[str, Any]) -> Factory:
    """What makes the environment for rendering, which the compiled engine's programs cannot do.

    Raises:
        InputError: there is none.
    """
    if isinstance(spec.build, Factory):
        return spec.build
    if spec.name not in COMPILED:
        raise InputError("environment", spec.name, "one that renders; a functional environment has no pictures here")
    return Factory(spec.name, dict(kwargs), spec.max_episode_steps)

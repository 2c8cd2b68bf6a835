"""Checks of what users give: numbers, names, keyword arguments. What is refused is so in one line."""

import difflib
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mean_actor_critic.errors import InputError, shortened
from mean_actor_critic.files import parsed_json
from mean_actor_critic.spec.settings import Setting, is_whole

DEEPEST_KWARGS = 20  # lists and dictionaries within each other

# What other libraries call things, and what they are called here.
WORDS = {
    **dict.fromkeys(("gamma", "discount_factor"), "discount"),
    **dict.fromkeys(
        ("lr", "alpha", "step_size"), "actor_lr and critic_lr; learning_rate for learners with one network"
    ),
    "learning_rate": "actor_lr and critic_lr",
    "actor_lr": "learning_rate",
    "critic_lr": "learning_rate",
    **dict.fromkeys(
        ("total_timesteps", "timesteps", "num_timesteps", "n_timesteps", "total_steps", "max_steps", "num_steps"),
        "steps (--steps), the budget of a trial",
    ),
    **dict.fromkeys(("n_episodes", "num_episodes", "total_episodes"), "episodes (--episodes), the budget of a trial"),
    **dict.fromkeys(("n_envs", "num_envs", "num_environments"), "environments, for learners with several in a trial"),
    **dict.fromkeys(("seeds", "n_seeds", "num_seeds", "n_trials", "runs", "num_trials"), "trials (--trials)"),
    **dict.fromkeys(("n_steps", "nsteps", "unroll_length"), "rollout_steps"),
    **dict.fromkeys(("ent_coef", "entropy_coef", "entropy_coefficient"), "entropy_weight"),
    **dict.fromkeys(("vf_coef", "value_coef"), "value_weight"),
    **dict.fromkeys(("max_grad_norm", "grad_clip"), "gradient_norm"),
    **dict.fromkeys(("buffer_size", "memory_size", "replay_size", "buffer_capacity"), "replay_capacity"),
    **dict.fromkeys(("net_arch", "hidden_sizes", "hidden_size", "layers", "policy_kwargs"), "hidden"),
    **dict.fromkeys(("minibatch_size", "mini_batch_size"), "batch_size"),
    **dict.fromkeys(("n_epochs", "gradient_steps", "num_minibatches"), "minibatches"),
    **dict.fromkeys(("frameskip", "frame_stack", "n_stack"), "frame_skip and stack"),
    **dict.fromkeys(("normalize", "normalise", "normalize_obs", "norm_obs"), "normalize_observations"),
    **dict.fromkeys(("n_eval_episodes", "eval_episodes"), "evaluation_episodes"),
    **dict.fromkeys(("eval_freq", "eval_every", "eval_interval"), "evaluation_interval (--evaluate-every)"),
    **dict.fromkeys(("n_jobs", "num_workers", "n_workers"), "workers (--workers)"),
    **dict.fromkeys(("env", "env_id", "environment_id"), "the environment itself, the first argument"),
    **dict.fromkeys(("algo", "algorithm_name"), "algorithm (--algorithm)"),
    **dict.fromkeys(("time_limit_steps", "max_ep_len", "episode_length"), "max_episode_steps"),
    **dict.fromkeys(("verbose", "progress_bar"), "progress (--quiet)"),
    "tensorboard_log": "tensorboard (--tensorboard)",
    "policy": "hidden and activation, which shape the networks",
}


def ours(word: str, known: Iterable[str] = ()) -> str | None:
    """What a word of another library is called here; None where it is not known, or is one of ours already."""
    name = word.lstrip("-").replace("-", "_").lower()
    return None if name in known else WORDS.get(name)


def unknown_name(field: str, value: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not among `known`, with our word for it or a guess at what was meant."""
    names = sorted(known)
    if not isinstance(value, str):
        return InputError(field, value, ", ".join(names))
    word = ours(value, names) if field.endswith("setting") else None
    if word:
        return InputError(field, value, f"our own names; here it is {word}")
    short = shortened(value, 200)
    close = difflib.get_close_matches(short, names, n=1) or difflib.get_close_matches(short.lower(), names, n=1)
    return InputError(field, value, ", ".join(names) + (f" (did you mean {close[0]}?)" if close else ""))


def checked_name(field: str, value: object, known: Iterable[str]) -> str:
    """`value`, an InputError unless it is one of the names that are known."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise unknown_name(field, value, names)
    return value


def require_whole(field: str, value: object, low: int, high: int) -> int:
    """`value`, Python's or NumPy's, as an int; an InputError unless it is a whole number from `low` to `high`."""
    number = plain(value)
    if not is_whole(number, low, high):
        raise InputError(field, value, f"a whole number from {low} to {high}")
    return number


def require_number(field: str, value: object) -> float:
    """`value` as a float; an InputError unless it is a finite number."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
        raise InputError(field, value, "a number")
    return float(number)


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, a sequence as a tuple."""
    if isinstance(value, list | tuple):
        return tuple(part.item() if isinstance(part, np.generic) else part for part in value)
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    return value


# --- settings as words -----------------------------------------------------------------------------------------------


def parse_settings(assignments: Iterable[str], known: Mapping[str, Setting]) -> dict[str, Any]:
    """Settings from `name=value` words, as the command line gives them; `known` are those that there are."""
    settings: dict[str, Any] = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError("--set", word, "name=value, such as actor_lr=0.01")
        if name not in known:
            raise unknown_name("setting", name, known)
        limits = known[name].limits
        try:
            settings[name] = limits.parse(text)
        except ValueError:
            raise InputError(name, text, limits.allowed) from None
    return settings


def settings_as_words(settings: Mapping[str, Any]) -> list[str]:
    """The `name=value` words that `parse_settings` makes these settings of."""
    return [f"{name}={_as_word(value)}" for name, value in settings.items()]


def _as_word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- keyword arguments of environments -------------------------------------------------------------------------------


def as_kwargs(given: Any) -> dict[str, Any]:
    """Keyword arguments as a dictionary of its own; none where nothing was given.

    Raises:
        InputError: they are not values by name.
    """
    if given is not None and not isinstance(given, Mapping):
        raise InputError("env_kwargs", given, "values by name")
    return dict(given or {})


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """Keyword arguments of an environment, which a manifest must be able to hold.

    Raises:
        InputError: they are not plain values by name.
    """
    if not isinstance(kwargs, dict) or not _is_plain(kwargs):
        allowed = "numbers, words, true or false, null, and lists and dictionaries of these, by name"
        raise InputError("env_kwargs", "what was given", allowed)
    return kwargs


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether JSON gives `value` back as it is. Not deeper than anybody needs, so that nothing runs out of stack."""
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        named = isinstance(value, list) or all(isinstance(name, str) for name in value)
        return depth < DEEPEST_KWARGS and named and all(_is_plain(part, depth + 1) for part in parts)
    if isinstance(value, int | float):
        return abs(value) <= sys.float_info.max  # JSON has no other numbers, and Python does not write very long ones
    return value is None or isinstance(value, str)


def parse_kwargs(assignments: Iterable[str]) -> dict[str, Any]:
    """Keyword arguments from `name=value` words; a value is JSON, or else a word."""
    kwargs: dict[str, Any] = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError("--env-kwargs", word, "name=value, such as gravity=-5.0")
        try:
            kwargs[name] = parsed_json({"True": "true", "False": "false", "None": "null"}.get(text, text))
        except json.JSONDecodeError:
            kwargs[name] = text
        except ValueError as fault:
            raise InputError("--env-kwargs", word, f"values as in JSON; {fault}") from None
    return checked_kwargs(kwargs)


def kwargs_as_words(kwargs: Mapping[str, Any]) -> list[str]:
    """The `name=value` words that `parse_kwargs` makes these keyword arguments of."""
    return [f"{name}={json.dumps(value)}" for name, value in kwargs.items()]

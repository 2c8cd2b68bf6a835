"""The settings of the task at hand: which there are, how `--help` lists them, and what others call them."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from mean_actor_critic.spec.algorithms import ALGORITHMS, BASELINE, CRITIC, POLICY
from mean_actor_critic.spec.checks import ours, settings_as_words
from mean_actor_critic.spec.experiment import learner_to_train, settings_for_engine, usual_learner
from mean_actor_critic.spec.learners import ENGINES, LEARNERS, learners_on
from mean_actor_critic.spec.presets import PRESETS, TUNED, start_from
from mean_actor_critic.spec.rules import GAME
from mean_actor_critic.spec.settings import Setting

# The roles of settings in the order in which they are listed, and what they are called there.
_GROUPS = {
    "any": "learner",
    POLICY: "policy, for algorithms that have one",
    CRITIC: "critic, for algorithms that have one",
    BASELINE: "baseline, for algorithms that have one",
    "environment": "environment",
    "game": "game",
    "evaluation": "evaluation",
}


def known_settings(engine: str, algorithm: str, learner: str | None = None) -> Mapping[str, Setting]:
    """The settings by names, where the engine may still have to be found out and the learner may not exist there."""
    known = engine if engine in ENGINES else "compiled"  # the others, which the environment decides on, are alike
    return settings_for_engine(known, learner if learner in learners_on(known) else usual_learner(algorithm, known))


def settings_at_hand(
    engine: str, algorithm: str, learner: str | None, papers: bool, given: Sequence[str]
) -> Mapping[str, Setting]:
    """The settings of the learner that is named, or would be chosen: the paper's if asked for, or by names `given`."""
    if learner is None:
        known = engine if engine in ENGINES else "compiled"
        names = [word.partition("=")[0] for word in given]
        learner = learner_to_train(algorithm, known, preset="paper" if papers else None, settings=names)
    return known_settings(engine, algorithm, learner)


def settings_to_give(
    engine: str, algorithm: str, learner: str | None, papers: bool, given: Sequence[str]
) -> Mapping[str, Setting]:
    """The same, and where the learner is still open, those of others too, by which these would be chosen."""
    at_hand = settings_at_hand(engine, algorithm, learner, papers, given)
    return at_hand if learner is not None or papers else {**known_settings(engine, algorithm), **at_hand}


def _at_hand(
    words: Sequence[str], settings: Callable[..., Mapping[str, Setting]] = settings_at_hand
) -> tuple[str, Mapping[str, Setting]]:
    """The engine that a command line is about and its settings, as far as words say before anything is looked at."""
    values = [word.partition("=")[2] if word.startswith("--") else word for word in words]
    is_game = any(value.startswith(GAME) for value in values)
    engine = next((value for value in values if value in ENGINES), "atari" if is_game else "compiled")
    algorithm = next((value for value in values if value in ALGORITHMS), "mac")
    learner = next((value for value in values if value in LEARNERS), None)
    papers = any(word.startswith(("--episodes", "--preset")) for word in words)
    return engine, settings(engine, algorithm, learner, papers, words)


# --- help ------------------------------------------------------------------------------------------------------------


def settings_help(words: Sequence[str]) -> str:
    """What `mac train … --help` ends with: settings, algorithms and learners of the task that its words name."""
    engine, settings = _at_hand(words)
    where = "Atari games" if engine == "atari" else "environments other than Atari games"
    parts = [
        [f"settings on {where} (--set name=value), with their defaults:"],
        *_groups(settings),
        _starts(words, engine),
        [
            "algorithms there (--algorithm), by what weighs the actions in the policy gradient:",
            *(f"  {name:23s} {algorithm.help}" for name, algorithm in ALGORITHMS.items() if _runs(name, engine)),
        ],
        ["learners there (--learner):", *(f"  {name:23s} {LEARNERS[name].help}" for name in learners_on(engine))],
        [] if engine == "atari" else [f"The settings of Atari games: mac train {GAME}Pong-v5 --help"],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _groups(settings: Mapping[str, Setting]) -> list[list[str]]:
    """The lines of each group of settings that has any."""
    groups = []
    for role, title in _GROUPS.items():
        lines = []
        for name, setting in settings.items():
            if setting.limits.role == role:
                (assignment,) = settings_as_words({name: setting.default})
                lines += [f"    {assignment}", f"        {setting.limits.help}: {setting.limits.allowed}"]
        groups.append([f"  {title}:", *lines] if lines else [])
    return groups


def _starts(words: Sequence[str], engine: str) -> list[str]:
    """What algorithms start from instead of the defaults, on the environment that the words name."""
    environment = next((word for word in words if word in PRESETS[TUNED] or word.startswith(GAME)), "")
    lines = []
    for name in ALGORITHMS:
        start = start_from(environment, name, engine=engine) if environment and _runs(name, engine) else None
        if start and start.settings:
            lines.append(f"  {name} ({start.origin}):\n      {' '.join(settings_as_words(start.settings))}")
    return [f"on {environment} these algorithms start from other values:", *lines] if lines else []


def _runs(algorithm: str, engine: str) -> bool:
    """Whether an algorithm can run on an engine."""
    return bool(set(ALGORITHMS[algorithm].learners) & set(learners_on(engine)))


# --- words that users bring ------------------------------------------------------------------------------------------


def unknown_option(words: Sequence[str], options: Collection[str]) -> str | None:
    """What to say of the first option that a command does not have but we have a word for; None if there is none.

    Args:
        words: of the command line.
        options: that the command has, such as "--steps".
    """
    trains = {"--algorithm", "--set"} <= set(options)
    settings = _at_hand(words, settings_to_give)[1] if trains else {}
    for word in words:
        option = word.partition("=")[0]
        if not option.startswith("--") or option in options or option == "--":
            continue
        name = _our_name(option, options, settings)
        if name:
            return f"there is no option {option}; here it is {name}"
        close = difflib.get_close_matches(option, options, n=1)
        if close:
            return f"there is no option {option} (did you mean {close[0]}?)"
    return None


def _our_name(option: str, options: Collection[str], settings: Mapping[str, Setting]) -> str | None:
    """What an option is called here, if the command has anything of the kind."""
    name = option.lstrip("-").replace("-", "_").lower()
    if name in settings:
        return f"a setting: --set {name}=…"
    found = ours(name)
    if found in settings:
        return f"the setting {found}: --set {found}=…"
    if found is None:
        return None
    named = set(re.findall(r"--[\w-]+", found))
    if named:
        return found if named <= set(options) else None
    by_name = " (--set name=value)" if set(re.findall(r"\w+", found)) & set(settings) else ""
    return found + by_name if settings else None

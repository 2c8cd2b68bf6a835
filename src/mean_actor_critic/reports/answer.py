"""The answer in one sentence, whichever it is."""

import math
from collections.abc import Sequence

from mean_actor_critic.reports import variants
from mean_actor_critic.reports.content import Content, Search, is_papers_order
from mean_actor_critic.reports.digits import in_millions, rounded, with_interval
from mean_actor_critic.reports.entries import solved_words
from mean_actor_critic.reports.games import PAPERS_STEPS, GameResult, OnGame, title_on_games
from mean_actor_critic.reports.sheets import OF_PROBABILITIES
from mean_actor_critic.reports.statistics import Summary
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.studies.sweep import RULES
from mean_actor_critic.terminal import printable


def answer(content: Content) -> tuple[str, str]:
    """What a report comes to: the beginning of a sentence that says who is best, and the rest of it."""
    if content.games:
        return _of_games(content)
    if content.tasks:
        return variants.answer(content.tasks)
    if not content.answer:
        return _of_searches(content) if content.searches else _of_theory(content)
    best = content.answer[0]
    verb = "has the highest mean return:" if len(content.answer) > 1 else "reaches a mean return of"
    number = _number(best.mean, content.digits, f"{best.trials_in_words} trial{'s' if best.mean.n > 1 else ''}")
    lead = f"On {content.title}, {best.entry.label} {verb} {number} over {content.answer_at} episodes"
    rest = [_probabilities(content), _order(content), _diverged(content)]
    return lead, "".join(f"; {part}" for part in rest if part) + "."


def notes(content: Content) -> list[str]:
    """What to know before believing the answer, a line each."""
    unfinished = [f"{entry.label}: {entry.unfinished}." for entry in content.entries if entry.unfinished]
    unfinished += [f"{search.source.name}: {search.unfinished}." for search in content.searches if search.unfinished]
    solved = [f"{entry.label}: {words}." for entry in content.entries if (words := solved_words(entry.run))]
    begun = [
        f"{name} is not far enough and is not shown." if content.tasks else f"{name} has only begun and is not shown."
        for name in content.begun
    ]
    damaged = [
        f"{line}; the checkpoint before it is shown." for source in content.sources.runs for line in source.run.warnings
    ]
    shorter = any(
        result.paper is not None and result.score.moment < PAPERS_STEPS for on in content.games for result in on.results
    )
    steps = [f"The paper’s scores are those after {in_millions(PAPERS_STEPS)} steps."] if shorter else []
    tasks = variants.notes(content.tasks) if content.tasks else []
    return [*tasks, *steps, *unfinished, *solved, *begun, *map(printable, damaged)]


def _number(mean: Summary, digits: int, n: str) -> str:
    """A mean with its interval or range, and with how many values it is of, in words."""
    ends = f"{rounded(mean.low, digits)} to {rounded(mean.high, digits)}"
    if mean.is_range:
        n = f"{n}, which range from {ends}"
    elif math.isfinite(mean.low):
        n = f"95 % interval {ends}, {n}"
    return f"{rounded(mean.mean, digits)} ({n})"


def _probabilities(content: Content) -> str:
    parts = [
        f"{with_interval(result.better, OF_PROBABILITIES)} against {result.entry.label}"
        for result in content.answer
        if result.better is not None
    ]
    ours = content.reference
    return (
        f"the probability that a trial of {ours.label} is the better one is {_listed(parts)}" if ours and parts else ""
    )


def _order(content: Content) -> str:
    task = content.sources.task
    ranked = [result.entry.algorithm for result in content.answer if result.paper]  # the paper has no word on others
    if task is None or len(ranked) < 2 or len(set(ranked)) < len(ranked):
        return ""
    if is_papers_order(task, ranked):
        return "the order is the paper’s"
    papers = sorted(ranked, key=lambda name: -task.scores[name].mean)
    return f"the paper’s order ({', '.join(algorithm_of(name).title for name in papers)}) does not hold"


def _diverged(content: Content) -> str:
    some = [f"{result.trials_in_words} trials of {result.entry.label}" for result in content.answer if result.diverged]
    return f"not all trials stayed finite ({_listed(some)} did), and all count" if some else ""


def _of_games(content: Content) -> tuple[str, str]:
    """Which run has the highest score, on one game or on each."""
    if len(content.games) > 1:
        which = "highest mean score" if any(len(on.results) > 1 for on in content.games) else "mean score"
        found = _listed([_best_on(on) for on in content.games])
        lead = f"The {which} at the last evaluation is that of {found}"
        order = _orders(content.games)
        return lead, f"; {order}." if order else "."
    (on,) = content.games
    best, *others = on.ranked
    verb = "has the highest mean score:" if others else "reaches a mean score of"
    number = _number(best.score.summary, on.digits, best.score.n_in_words)
    lead = f"On {on.title}, {best.entry.label} {verb} {number} at its last evaluation, after {_steps(best)}"
    rest = [
        f"{result.entry.label} has {rounded(result.score.summary.mean, on.digits)} after {_steps(result)}"
        for result in others
    ]
    papers = {title_on_games(result.entry.algorithm): result.paper for result in on.results if result.paper is not None}
    if papers:
        rest.append(f"the paper reports {_listed([f'{score} for {name}' for name, score in papers.items()])}")
    return lead, "".join(f"; {part}" for part in rest) + "."


def _steps(result: GameResult) -> str:
    return f"{in_millions(result.score.moment)} steps"


def _best_on(on: OnGame) -> str:
    best = on.ranked[0]
    return f"{best.entry.label} on {on.title} ({rounded(best.score.summary.mean, on.digits)} after {_steps(best)})"


def _orders(games: Sequence[OnGame]) -> str:
    """On which games the order of the algorithms is the paper's."""
    held: dict[bool, list[str]] = {True: [], False: []}
    for on in games:
        papers = [result.paper for result in on.ranked if result.paper is not None]
        if len(papers) > 1 and len({result.entry.algorithm for result in on.results}) == len(on.results):
            held[papers == sorted(papers, reverse=True)].append(on.title)
    parts = [f"{'holds' if holds else 'does not hold'} on {_listed(names)}" for holds, names in held.items() if names]
    return f"the paper’s order {' and '.join(parts)}" if parts else ""


def _of_searches(content: Content) -> tuple[str, str]:
    """Without runs: what was found, and what it is not."""
    rules = dict.fromkeys(RULES[search.plan.rule] for search in content.searches)
    lead = f"On {content.title}, {'; '.join(_found(search, len(content.searches) > 1) for search in content.searches)}"
    return lead, f" ({', or '.join(rules)}); these are numbers that settings were chosen by, not results."


def _found(search: Search, named: bool) -> str:
    parts = [
        f"{rounded(won.score, search.digits)} for {algorithm_of(algorithm).title}"
        for algorithm, won in search.winners.items()
    ]
    where = f" of {search.source.name}" if named else ""
    so_far = "so far " if search.unfinished else ""
    return f"{so_far}the best of the {search.tried} settings{where} score {_listed(parts)}"


def _of_theory(content: Content) -> tuple[str, str]:
    """With nothing but measurements of estimators: how the claims fared."""
    claims = [claim for source in content.sources.theories for claim in source.theory.claims]
    counts = {verdict: [claim.verdict for claim in claims].count(verdict) for verdict in ("holds", "fails", "depends")}
    words = {"holds": "hold", "fails": "fail", "depends": "depend on more"}
    parts = [f"{count} {words[verdict]}" for verdict, count in counts.items() if count]
    return f"Of what the paper claims of its estimators, {_listed(parts) or 'nothing was decided'}", "."


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)

"""The answer in one sentence, whichever it is."""

import math

from mean_actor_critic.reports.content import Content, Result, Search, is_papers_order
from mean_actor_critic.reports.digits import rounded, with_interval
from mean_actor_critic.reports.sources import printable
from mean_actor_critic.reports.tables import OF_PROBABILITIES
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.studies.sweep import RULES


def answer(content: Content) -> tuple[str, str]:
    """What a report comes to: the beginning of a sentence that says who is best, and the rest of it."""
    if not content.answer:
        return _of_searches(content) if content.searches else _of_theory(content)
    best = content.answer[0]
    verb = "has the highest mean return:" if len(content.answer) > 1 else "reaches a mean return of"
    number = _number(best, content.digits)
    lead = f"On {content.title}, {best.entry.label} {verb} {number} over {content.answer_at} episodes"
    rest = [_probabilities(content), _order(content), _diverged(content)]
    return lead, "".join(f"; {part}" for part in rest if part) + "."


def notes(content: Content) -> list[str]:
    """What to know before believing the answer, a line each."""
    unfinished = [f"{entry.label}: {entry.unfinished}." for entry in content.entries if entry.unfinished]
    unfinished += [f"{search.source.name}: {search.unfinished}." for search in content.searches if search.unfinished]
    begun = [f"{name} has only begun and is not shown." for name in content.begun]
    damaged = [
        f"{line}; the checkpoint before it is shown." for source in content.sources.runs for line in source.run.warnings
    ]
    return [*unfinished, *begun, *map(printable, damaged)]


def _number(result: Result, digits: int) -> str:
    mean = result.mean
    trials = f"{result.trials_in_words} trials" if mean.n > 1 else "1 trial"
    ends = f"{rounded(mean.low, digits)} to {rounded(mean.high, digits)}"
    if mean.is_range:
        trials = f"{trials}, which range from {ends}"
    elif math.isfinite(mean.low):
        trials = f"95 % interval {ends}, {trials}"
    return f"{rounded(mean.mean, digits)} ({trials})"


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
    return f"the paper’s order ({', '.join(ALGORITHMS[name].title for name in papers)}) does not hold"


def _diverged(content: Content) -> str:
    some = [f"{result.trials_in_words} trials of {result.entry.label}" for result in content.answer if result.diverged]
    return f"not all trials stayed finite ({_listed(some)} did), and all count" if some else ""


def _of_searches(content: Content) -> tuple[str, str]:
    """Without runs: what was found, and what it is not."""
    rules = dict.fromkeys(RULES[search.plan.rule] for search in content.searches)
    lead = f"On {content.title}, {'; '.join(_found(search, len(content.searches) > 1) for search in content.searches)}"
    return lead, f" ({', or '.join(rules)}); these are numbers that settings were chosen by, not results."


def _found(search: Search, named: bool) -> str:
    parts = [
        f"{rounded(won.score, search.digits)} for {ALGORITHMS[algorithm].title}"
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

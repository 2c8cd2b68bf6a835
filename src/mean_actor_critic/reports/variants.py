"""What a report says of runs on several tasks: is MAC better than its twins, and what is each of its parts worth."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mean_actor_critic.reports.digits import exact, rounded, with_interval
from mean_actor_critic.reports.sheets import OF_PROBABILITIES, Sheet, filled_sheet, to_threshold
from mean_actor_critic.reports.statistics import CONFIDENCE, FEWEST, Difference, Estimate, Summary
from mean_actor_critic.reports.tasks import AHEAD, BEHIND, EVEN, PARTS, TWINS, Comparison, Measure, OnTask
from mean_actor_critic.spec.algorithms import algorithm_of

GROUPS = {TWINS: "MAC and its twins", PARTS: "MAC with one setting changed"}
SAMPLED_TWIN = "advantage_actor_critic"


def _estimate(difference: Difference) -> Estimate:
    return Estimate(difference.difference, difference.low, difference.high)


def _mean(summary: Summary, digits: int) -> str:
    """A mean with its interval, or the range of a few values."""
    if summary.is_range:
        return f"{rounded(summary.mean, digits)} [{rounded(summary.low, digits)} to {rounded(summary.high, digits)}]"
    return with_interval(summary, digits)


def _deciding(tasks: Sequence[OnTask]) -> Measure:
    return tasks[0].measures[0]


# --- tables ----------------------------------------------------------------------------------------------------------


def twins_sheet(tasks: Sequence[OnTask]) -> Sheet:
    """Each algorithm with the usual settings on each task, by all measures, and MAC against it by the one that decides.

    Where no run has the usual settings, all runs are shown.
    """
    rows = [(on, result) for on in tasks for result in on.twins or on.results]
    deciding, at_end = _deciding(tasks), next(m for m in tasks[0].measures if m.at_end)
    worst = tasks[0].measures.index(at_end)
    columns = {
        "Task": [on.title for on, _ in rows],
        "Algorithm": [result.entry.label for _, result in rows],
        **{
            measure.title: [_mean(result.summaries[place], on.digits) for on, result in rows]
            for place, measure in enumerate(tasks[0].measures)
        },
        f"worst trial, {at_end.title}": [rounded(float(result.values[worst].min()), on.digits) for on, result in rows],
        "steps to goal": [to_threshold(r.to_goal, r.reached, r.summaries[0].n) for _, r in rows],
        "trials": [result.trials_in_words for _, result in rows],
        f"MAC less this, {deciding.title}": [
            with_interval(_estimate(result.against[0].ahead), on.digits) if result.against else ""
            for on, result in rows
        ],
        "P(MAC better)": [
            with_interval(result.against[0].better, OF_PROBABILITIES) if result.against else "" for _, result in rows
        ],
        "MAC is": [result.against[0].verdict if result.against else "" for _, result in rows],
    }
    return filled_sheet("MAC and its twins, which have the same critics", columns, left=2)


def parts_sheet(tasks: Sequence[OnTask]) -> Sheet:
    """What each part is worth on each task: MAC less MAC with a setting changed; no rows where nothing was changed."""
    changes = _changes(tasks)
    counts = {words: _verdicts(_with_part(tasks, words)) for words in changes}
    rows = [[on.title, *(_worth(on, words) for words in changes)] for on in tasks if on.mac is not None and on.parts]
    if rows:
        rows.append([
            f"tasks: MAC {AHEAD} / {EVEN} / {BEHIND}",
            *(" / ".join(str(counts[words][verdict]) for verdict in (AHEAD, EVEN, BEHIND)) for words in changes),
        ])  # fmt: skip
    title = f"What each part is worth: MAC less MAC with one setting changed, {_deciding(tasks).title}"
    return Sheet(title, ["Task", *changes], rows)


def counts_sheet(tasks: Sequence[OnTask]) -> Sheet:
    """The same in numbers of tasks."""
    counts = {words: _verdicts(_with_part(tasks, words)) for words in _changes(tasks)}
    rows = [[words, *(str(found[verdict]) for verdict in (AHEAD, EVEN, BEHIND))] for words, found in counts.items()]
    title = f"Tasks on which MAC is ahead of itself with one setting changed, {_deciding(tasks).title}"
    return Sheet(title, ["MAC with", AHEAD, EVEN, BEHIND], rows)


def _changes(tasks: Sequence[OnTask]) -> list[str]:
    """The settings that were changed in runs of MAC, in words."""
    parts = (part for on in tasks for part in on.parts if part.entry.algorithm == "mac")
    return list(dict.fromkeys(part.changed for part in parts))


def _with_part(tasks: Sequence[OnTask], words: str) -> list[tuple[OnTask, Comparison]]:
    return [
        (on, part.against[0])
        for on in tasks
        for part in on.parts
        if part.changed == words and part.entry.algorithm == "mac" and part.against
    ]


def _worth(on: OnTask, words: str) -> str:
    found = _with_part([on], words)
    return with_interval(_estimate(found[0][1].ahead), on.digits) if found else "–"


def csv_rows(tasks: Sequence[OnTask]) -> list[list[Any]]:
    """All of it with all digits, for a file: a row for each task, variant and measure."""
    rows: list[list[Any]] = [
        ["task", "environment", "algorithm", "changed", "measure", "mean", "sd", "low", "high", "worst", "best",
         "trials", "diverged", "goal", "steps_to_goal", "steps_to_goal_low", "steps_to_goal_high", "reached",
         "mac_better", "mac_better_low", "mac_better_high", "mac_ahead", "mac_ahead_low", "mac_ahead_high", "p",
         "mac_is", "label", "run"]
    ]  # fmt: skip
    for on, result in ((task, result) for task in tasks for result in task.results):
        entry = result.entry
        goal = ["" if on.goal is None else exact(on.goal)]
        goal += map(exact, result.to_goal) if result.to_goal else ["", "", ""]
        for place, measure in enumerate(on.measures):
            summary, values = result.summaries[place], result.values[place]
            against = result.against[place] if result.against else None
            rows.append(
                [
                    *(on.title, entry.run.experiment.environment, entry.algorithm, result.changed, measure.title),
                    *map(exact, summary[:4]),
                    *(exact(values.min()), exact(values.max()), summary.n, result.diverged),
                    *(*goal, result.reached if result.to_goal else ""),
                    *(map(exact, against.better) if against else ["", "", ""]),
                    *(map(exact, _estimate(against.ahead)) if against else ["", "", ""]),
                    *((f"{against.ahead.p:.3g}", against.verdict) if against else ("", "")),
                    *(entry.label, entry.source.name),
                ]
            )
    return rows


def evaluation_rows(tasks: Sequence[OnTask]) -> list[list[Any]]:
    """Every evaluation of every trial, for a file: means over its episodes, from which all else can be computed."""
    rows: list[list[Any]] = [["task", "algorithm", "changed", "run", "trial", "steps", "greedy", "sampled"]]
    for on, result in ((task, result) for task in tasks for result in task.results):
        run, found = result.entry.run, result.entry.run.evaluations
        names = [on.title, result.entry.algorithm, result.changed, result.entry.source.name]
        moments = run.experiment.evaluation_moments()
        for place, trial in enumerate(run.experiment.trial_numbers()):
            for number in range(found.evaluated[place]):
                greedy = "" if found.greedy_means is None else exact(found.greedy_means[place, number])
                sampled = exact(found.means[place, number])
                rows.append([*names, int(trial), int(moments[number]), greedy, sampled])
    return rows


# --- the answer ------------------------------------------------------------------------------------------------------


def answer(tasks: Sequence[OnTask]) -> tuple[str, str]:
    """What averaging over all actions is worth, and what else there is to say; whichever it is."""
    rivals = list(dict.fromkeys(result.entry.algorithm for on in tasks for result in on.twins if result.against))
    if SAMPLED_TWIN not in rivals:
        lead = f"On {_count(len(tasks))}, {_listed([_reached(on) for on in tasks])}"
    else:
        how = "greedy" if _deciding(tasks).greedy else "sampled"
        worth = _on_how_many(_against(tasks, SAMPLED_TWIN))
        lead = f"By {how} returns over training, averaging over all actions, not learning from the one taken, {worth}"
    rest = [_by_other_measures(tasks)] if SAMPLED_TWIN in rivals else []
    rest += [
        f"against {algorithm_of(name).title}, MAC {_on_how_many(_against(tasks, name))}"
        for name in rivals
        if name != SAMPLED_TWIN
    ]
    rest += [_parts(tasks)] if _changes(tasks) else []
    return lead, "".join(f"; {part}" for part in rest if part) + "."


def _against(tasks: Sequence[OnTask], algorithm: str, place: int = 0) -> list[tuple[OnTask, Comparison]]:
    """MAC against a twin, on each task that has both, by a measure."""
    return [
        (on, twin.against[place])
        for on in tasks
        for twin in on.twins
        if twin.entry.algorithm == algorithm and twin.against
    ]


def _verdicts(found: Iterable[tuple[OnTask, Comparison]]) -> Counter[str]:
    return Counter(comparison.verdict for _, comparison in found)


def _on_how_many(found: Sequence[tuple[OnTask, Comparison]]) -> str:
    """On how many tasks it is better, worse, or neither as far as intervals tell; and on which."""
    which: dict[str, list[str]] = {AHEAD: [], BEHIND: [], EVEN: []}
    for on, comparison in found:
        which[comparison.verdict].append(on.title)
    if len(which[EVEN]) == len(found):
        return f"makes no difference that shows on any of {_count(len(found))}"
    words = {AHEAD: f"is better on {{}} of {_count(len(found))}", BEHIND: "worse on {}", EVEN: "no different on {}"}
    return _listed([
        words[verdict].format(len(titles)) + (f" ({', '.join(titles)})" if titles and verdict != EVEN else "")
        for verdict, titles in which.items()
    ])  # fmt: skip


def _count(tasks: int) -> str:
    return f"{tasks} task{'s' if tasks != 1 else ''}"


def _reached(on: OnTask) -> str:
    """Without a twin to compare with: what there is."""
    result = on.mac or on.ranked[0]
    n = f"{result.trials_in_words} trial{'s' if result.summaries[0].n > 1 else ''}"
    return f"{result.entry.label} reaches {_mean(result.summaries[0], on.digits)} on {on.title} ({n})"


def _by_other_measures(tasks: Sequence[OnTask]) -> str:
    """The same comparison with the sampled twin by the other measures, in numbers of tasks."""
    parts = []
    for place, measure in enumerate(tasks[0].measures[1:], start=1):
        counts = _verdicts(_against(tasks, SAMPLED_TWIN, place))
        parts.append(f"better on {counts[AHEAD]} and worse on {counts[BEHIND]} ({measure.title})")
    return f"judged otherwise, {_listed(parts)}"


def _parts(tasks: Sequence[OnTask]) -> str:
    """On how many tasks MAC is worse, or better, with each of its settings changed; those that matter most first."""
    counts = {words: _verdicts(_with_part(tasks, words)) for words in _changes(tasks)}
    ordered = sorted(counts, key=lambda words: counts[words][BEHIND] - counts[words][AHEAD])
    matter = [words for words in ordered if counts[words][AHEAD] or counts[words][BEHIND]]
    parts = [
        f"worse on {counts[words][AHEAD]} and better on {counts[words][BEHIND]} of {_count(counts[words].total())} "
        f"with {words}"
        for words in matter
    ]
    parts += [f"no different with {_listed(rest)}"] if (rest := [w for w in ordered if w not in matter]) else []
    return f"MAC is {_listed(parts)}"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def notes(tasks: Sequence[OnTask]) -> list[str]:
    """What to know before believing it."""
    compared = sum(bool(result.against) for on in tasks for result in on.results)
    by_chance = (1 - CONFIDENCE) * compared
    lines = []
    if compared:
        lines.append(
            f"Better, worse, ahead and behind: where the {CONFIDENCE:.0%} interval of the difference of means lies on "
            f"one side of 0. Of {compared} such comparisons by one measure, {by_chance:.1f} would do so by chance if "
            "nothing made a difference; and where nothing shows, more trials might show it."
        )
    in_common = tasks[0].in_common if tasks else []
    if in_common:
        lines.append(f"All runs that have these settings have {' '.join(in_common)}, which is not usual.")
    return lines


# --- words of the page -----------------------------------------------------------------------------------------------


def caption() -> str:
    """Of the chart of results."""
    return (
        "Mean return of evaluations: of all of them, evenly spread over the training, or of the last. Greedy: by the "
        "most probable actions; sampled: the same episodes by actions as they are drawn in training."
    )


def legend(tasks: Sequence[OnTask]) -> str:
    """What the columns of the tables mean."""
    few = any(summary.is_range for on in tasks for result in on.results for summary in result.summaries)
    parts = [
        f"What decides is the return “{_deciding(tasks).title}”: how soon and how well at once.",
        "Steps to goal: the median over trials of the first evaluation whose mean is as high as the goal."
        if any(on.goal is not None for on in tasks)
        else "",
        "MAC less this: the difference of means with its 95 % interval by Student’s t, of pairs where trials of one "
        "number share their random numbers. P(MAC better): the probability that a trial of MAC is better than one of "
        "the row’s.",
        "Intervals of means are of 95 %, by the bootstrap and no further than the trials’ values.",
        f"Of fewer than {FEWEST} trials the range is shown, with “to”." if few else "",
    ]
    return " ".join(filter(None, parts))


def caption_of_curves(tasks: Sequence[OnTask]) -> str:
    """Of the learning curves."""
    goal = " Dashed across: the goal." if any(on.goal is not None for on in tasks) else ""
    return (
        "Mean return over trials by agent steps, with bands point by point that go no further than the trials’ values. "
        "Evaluations are episodes of their own, from which nothing is learned; in greedy ones these are played with "
        f"the most probable actions.{goal} IQM is the mean of the middle half."
    )


def method() -> list[str]:
    """How the numbers were made, a paragraph each."""
    return [
        "A trial is a training by itself. Training stops now and then for an evaluation, with seeds of its own: "
        "episodes with actions sampled from the policy, and the same episodes with the most probable ones. The unit "
        "of all statistics is the trial: first the mean of its episodes, then of its evaluations, then everything "
        "over trials.",
        "The twins have the same learner, critics and settings, and differ in what the policy learns from: all actions "
        "(MAC), the action taken (advantage actor-critic), or no policy at all (Q-learning, which explores by uniform "
        "actions now and then). A part is switched off by changing one setting of MAC.",
        "Trials of one number begin alike in all runs of a seed and engine; comparisons with MAC allow for it. A trial "
        "that diverges goes on without learning, and counts: no trial is left out.",
    ]


def alternative(tasks: Sequence[OnTask]) -> str:
    """What the charts show, in words."""
    parts = [
        f"{on.title}, {result.entry.label}, {rounded(result.summaries[0].mean, on.digits)}"
        for on in tasks
        for result in on.twins or on.results
    ]
    return f"Mean return, {_deciding(tasks).title}: {'; '.join(parts)}."

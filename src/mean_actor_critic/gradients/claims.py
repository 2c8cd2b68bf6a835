"""The paper's claims, each with a verdict and its evidence."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import binomtest, spearmanr

from mean_actor_critic.gradients.survey import Survey
from mean_actor_critic.gradients.theory import EPISODE, TAIL, UPDATE, Claim, Moment, Number, Row, Trial
from mean_actor_critic.spec.algorithms import ALGORITHMS

ROUNDING = 1e-12  # what float64 may leave of nothing
MOSTLY = 0.95  # of the problems, for a tendency to count as one


def claims(survey: Survey | None, trials: Sequence[Trial]) -> tuple[Claim, ...]:
    """A verdict on each claim. What was enumerated decides; what was sampled says how it is in networks."""
    return (
        _theorem_1(survey, trials),
        _theorem_2_independent(survey, trials),
        _theorem_2_trajectories(survey, trials),
        _baseline(survey),
        _deterministic(survey),
        _entropy(survey, trials, "actor_critic"),
        _entropy(survey, trials, "advantage_actor_critic"),
    )


def _theorem_1(survey: Survey | None, trials: Sequence[Trial]) -> Claim:
    name = "Theorem 1: MAC has the bias of actor-critic"
    rows = [row for _, row in _rows(trials, "actor_critic", str.isdecimal)]
    apart = sum(row["difference"].low > 0 for row in rows)
    # as many as the lower ends of intervals miss by chance, or more?
    surely = bool(apart) and binomtest(apart, len(rows), TAIL, alternative="greater").pvalue < TAIL
    deep = ""
    if rows:
        most = max((row["difference"].high for row in rows), key=lambda x: -1.0 if math.isnan(x) else x)
        biases = [row["bias"] for _, row in _rows(trials, "mac", str.isdecimal)]
        deep = (
            f"the mean of actor-critic is told apart from MAC’s in {apart} of {len(rows)} measurements"
            f"{', more than chance explains' if surely else ''} (what is not excluded is up to {most:.2g}); MAC’s own "
            f"bias is {_range(biases)}; both in units of the longer of the gradient and MAC’s mean"
        )
        updates = [row for _, row in _rows(trials, "actor_critic", UPDATE.__eq__)]
        if updates:
            different = sum(row["difference"].low > 0 for row in updates)
            deep += (
                f". An episode’s mean, whose length depends on the actions, is another matter: told apart in "
                f"{different} of {len(updates)}"
            )
    if survey is None:
        verdict = "not measured" if not rows else ("fails" if surely else "holds")
        return Claim(name, verdict, "", deep)
    exact = (
        f"means differ by at most {survey.means_apart:.0e} in {survey.checks} checks (true, biased and noisy critics; "
        f"independent states and trajectories), REINFORCE’s from the gradient by at most {survey.unbiased:.0e}"
    )
    return Claim(name, "holds" if survey.means_apart < ROUNDING else "fails", exact, deep)


def _theorem_2_independent(survey: Survey | None, trials: Sequence[Trial]) -> Claim:
    name = "Theorem 2: MAC has no more variance than actor-critic, for independent states"
    rows = [row for _, row in _rows(trials, "actor_critic", str.isdecimal)]
    deep = ""
    if rows:
        ours = [row for _, row in _rows(trials, "mac", str.isdecimal)]
        sampled = [
            a["measured"].value / b["measured"].value for a, b in zip(rows, ours, strict=True) if b["measured"].value
        ]
        deep = (
            f"actor-critic’s variance is {_times([row['ratio'] for row in rows])} MAC’s in closed form over actions "
            f"(where it cannot be less); of sampled estimates {min(sampled, default=math.nan):.3g} to "
            f"{max(sampled, default=math.nan):.3g} times"
        )
    if survey is None:
        more = all(not row["ratio"].low < 1 for row in rows)
        return Claim(name, "not measured" if not rows else ("holds" if more else "fails"), "", deep)
    exact = (
        f"cov(actor-critic) − cov(MAC) has no eigenvalue below {min(survey.smallest_eigenvalue, 0.0):.0e} of the total "
        f"in {survey.checks} checks, and the total is larger in {survey.strict} of them"
    )
    return Claim(name, "holds" if survey.smallest_eigenvalue > -ROUNDING else "fails", exact, deep)


def _theorem_2_trajectories(survey: Survey | None, trials: Sequence[Trial]) -> Claim:
    name = "Theorem 2 on whole trajectories, where an action also moves the states to come"
    rows = [row for _, row in _rows(trials, "actor_critic", lambda batch: batch in (EPISODE, UPDATE))]
    more = sum(row["ratio"].high < 1 for row in rows)
    deep = ""
    if rows:
        deep = (
            f"actor-critic’s variance is {_times([row['ratio'] for row in rows])} MAC’s; MAC has surely more in "
            f"{more} of {len(rows)} measurements"
        )
        rivals = [row for _, row in _rows(trials, "advantage_actor_critic", lambda b: b in (EPISODE, UPDATE))]
        deep += f"; advantage actor-critic’s is {_times([row['ratio'] for row in rivals])} MAC’s"
    if survey is None:
        return Claim(name, "not measured" if not rows else ("fails" if more else "depends"), "", deep)
    theirs, ours = survey.counterexample
    parts = [
        f"{worse} of {n} problems with {kind} {_share(worse, n)}"
        for kind, (worse, n) in survey.worse_on_trajectories.items()
    ]
    exact = (
        f"a counterexample: actor-critic {theirs:g}, MAC {ours:g}; with any of three critics MAC has more variance in "
        f"{', '.join(parts)}, at worst {survey.worst_ratio:.2f} times"
    )
    return Claim(name, "fails" if theirs < ours else "holds", exact, deep)


def _baseline(survey: Survey | None) -> Claim:
    name = "A baseline changes nothing about MAC"
    if survey is None:
        return Claim(name, "not measured", "", "")
    exact = (
        f"a baseline for each state changes its mean and covariance by at most {survey.baseline:.0e}, in "
        f"{survey.checks} checks"
    )
    return Claim(name, "holds" if survey.baseline < ROUNDING else "fails", exact, "")


def _deterministic(survey: Survey | None) -> Claim:
    name = "For deterministic policies MAC and actor-critic are the same"
    if survey is None:
        return Claim(name, "not measured", "", "")
    exact = f"their covariances differ by at most {survey.deterministic:.0e} in {survey.problems} problems"
    if survey.largest_deterministic < ROUNDING:
        exact += "; with a softmax because both vanish"
    return Claim(name, "holds" if survey.deterministic < ROUNDING else "fails", exact, "")


def _entropy(survey: Survey | None, trials: Sequence[Trial], rival: str) -> Claim:
    title = ALGORITHMS[rival].title
    name = f"High entropy favours MAC, against {title}"
    pairs = [(moment.entropy.value, _saved(row)) for moment, row in _rows(trials, rival, str.isdecimal)]
    deep = ""
    if len(set(pairs)) > 2:
        rank = spearmanr([entropy for entropy, _ in pairs], [saved for _, saved in pairs]).statistic
        most, least = max(pairs), min(pairs)
        deep = (
            f"MAC saves {most[1]:.0%} of {title}’s variance at the highest entropy ({most[0]:.2f} nats) and "
            f"{least[1]:.0%} at the lowest ({least[0]:.2f}); rank correlation {rank:.2f} over {len(set(pairs))} moments"
        )
    if survey is None:
        return Claim(name, "not measured", "", deep)
    counts = {actions: count for (name_of, actions), count in survey.rising.items() if name_of == rival}
    parts = [
        f"{actions} actions: the variance that MAC saves rises with entropy (rank correlation over six levels) in "
        f"{up} of {n} problems {_share(up, n)} "
        "and is {:.0%} of its most at a uniform policy, where it is {:.0%} of all".format(
            *survey.uniform[rival, actions]
        )
        for actions, (up, n) in counts.items()
    ]
    shares = [up / n for up, n in counts.values()]
    verdict = "holds" if min(shares) > MOSTLY else ("fails" if max(shares) < 1 - MOSTLY else "depends")
    return Claim(name, verdict, "; ".join(parts), deep)


def _saved(row: Row) -> float:
    """The share of a variance, from independent states, that is due to actions and that MAC does without."""
    return row["actions"].value / row["variance"].value


def _rows(trials: Sequence[Trial], estimator: str, wanted: Callable[[str], bool]) -> Iterator[tuple[Moment, Row]]:
    """Of an estimator, for batches that are wanted; of the numbers of independent states the first says it all."""
    for trial in trials:
        batches = [batch for batch in trial.batches if wanted(batch)]
        for moment in trial.moments:
            for batch in batches[:1] if wanted("1") else batches:
                yield moment, moment.row(estimator, batch)


def _share(count: int, n: int) -> str:
    interval = binomtest(count, n).proportion_ci(1 - 2 * TAIL, "wilson")
    return f"({count / n:.1%} [{interval.low:.1%}, {interval.high:.1%}])"


def _times(numbers: Sequence[Number]) -> str:
    """The smallest and the largest, with their intervals."""
    low, high = min(numbers, key=lambda x: x.value), max(numbers, key=lambda x: x.value)
    return f"{low} times" if low == high else f"{low} to {high} times"


def _range(numbers: Sequence[Number]) -> str:
    known = [number for number in numbers if not math.isnan(number.value)]
    if not known:
        return "unknown"
    low, high = np.min([x.value for x in known]), np.max([x.value for x in known])
    return f"{low:.2g} to {high:.2g}" if len(known) > 1 else str(known[0])

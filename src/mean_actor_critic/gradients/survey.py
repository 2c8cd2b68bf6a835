"""The paper's claims in a thousand random problems, exactly: what can be enumerated needs no statistics."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic.gradients.exact import (
    Exact,
    Measured,
    Problem,
    Size,
    SoftmaxPolicy,
    action_values,
    counterexample,
    examine,
    measure,
    objective,
    random_problems,
)
from mean_actor_critic.gradients.theory import EntropyCurve

HORIZON = 5
# tabular policies, and such whose states share one or three parameters
SIZES = (Size(5, 2), Size(5, 3), Size(3, 2, 1), Size(5, 3, 1), Size(4, 3, 3))
SHARPER = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # what logits are multiplied with, from a uniform policy on
DETERMINISTIC = 1e8
RIVALS = ("actor_critic", "advantage_actor_critic")  # whose critic MAC uses otherwise

HostArray = np.ndarray[Any, Any]


class Survey(NamedTuple):
    """What was found. Differences are relative to the largest number of their kind in the problem, or to 1."""

    problems: int
    checks: int  # problems, each with a true, a biased and a noisy critic
    counterexample: tuple[float, float]  # variance of actor-critic and MAC on its trajectories
    means_apart: float  # largest difference between the means of actor-critic and MAC
    unbiased: float  # largest difference between the true gradient and the mean of REINFORCE
    smallest_eigenvalue: float  # of cov(actor-critic) − cov(MAC), independent states
    strict: int  # checks in which actor-critic's total variance is larger by more than rounding
    # by kind of policy: problems where MAC has more with any of the three critics, of how many
    worse_on_trajectories: dict[str, tuple[int, int]]
    worst_ratio: float  # MAC's variance over actor-critic's there
    baseline: float  # largest change of MAC's mean or covariance by a baseline
    deterministic: float  # largest difference of covariances for deterministic policies
    largest_deterministic: float  # and the largest covariance itself
    curves: tuple[EntropyCurve, ...]
    # by rival and number of actions: problems in which more entropy means that MAC saves more variance, of how many
    rising: dict[tuple[str, int], tuple[int, int]]
    # what MAC saves at a uniform policy: in units of the most at any of the entropies, and as a share of the variance
    uniform: dict[tuple[str, int], tuple[float, float]]


def survey(problems: int = 1000, seed: int = 0) -> Survey:
    """Check so many random problems of up to 5 states, 3 actions and 5 steps."""
    random = np.random.default_rng(seed)
    found = list(_everything(problems, random))
    rivals = [(size, exact.estimators["actor_critic"], exact.estimators["mac"]) for size, exact in found]
    # [problem], the worst of the critics
    ratios = {
        size: np.max([_total(mac.episode) / _total(rival.episode) for of, rival, mac in rivals if of == size], axis=0)
        for size in SIZES
    }
    kinds = {kind: [ratios[size] for size in SIZES if _kind(size) == kind] for kind in map(_kind, SIZES)}
    sharpness = [_sharpened(size, problems // len(SIZES), random) for size in SIZES if size.parameters is None]
    deterministic = [_deterministic(size, problems // len(SIZES), random) for size in SIZES]
    return Survey(
        problems=len(SIZES) * (problems // len(SIZES)),
        checks=sum(len(exact.gradient) for _, exact in found),
        counterexample=_of_counterexample(),
        means_apart=max(
            max(_apart(rival.mean, mac.mean), _apart(rival.episode_mean, mac.episode_mean)) for _, rival, mac in rivals
        ),
        unbiased=max(_apart(exact.estimators["reinforce"].episode_mean, exact.gradient) for _, exact in found),
        smallest_eigenvalue=min(
            float(
                np.min(
                    np.linalg.eigvalsh(rival.independent - mac.independent)[:, 0]
                    / np.maximum(_total(rival.independent), 1e-300)
                )
            )
            for _, rival, mac in rivals
        ),
        strict=sum(
            int(np.sum(_total(rival.independent) > (1 + 1e-9) * _total(mac.independent))) for _, rival, mac in rivals
        ),
        worse_on_trajectories={
            kind: (int(np.sum(np.concatenate(of) > 1 + 1e-9)), sum(map(len, of))) for kind, of in kinds.items()
        },
        worst_ratio=float(max(r.max() for r in ratios.values())),
        baseline=max(_changed(exact.estimators["mac"], exact.shifted) for _, exact in found),
        deterministic=max(
            float(np.max(np.abs(e["actor_critic"].independent - e["mac"].independent))) for e in deterministic
        ),
        largest_deterministic=max(float(np.max(np.abs(e["actor_critic"].independent))) for e in deterministic),
        curves=tuple(itertools.chain.from_iterable(curves for curves, _, _ in sharpness)),
        rising=dict(itertools.chain.from_iterable(rising.items() for _, rising, _ in sharpness)),
        uniform=dict(itertools.chain.from_iterable(uniform.items() for _, _, uniform in sharpness)),
    )


def _everything(problems: int, random: np.random.Generator) -> Iterator[tuple[Size, Exact]]:
    """Each problem with a true critic, one that errs by state and action, and one that errs every time."""
    for size in SIZES:
        count = problems // len(SIZES)
        problem, policy = random_problems(random, count, size, HORIZON)
        shape = (count, HORIZON, size.states, size.actions)
        biased = np.broadcast_to(random.normal(size=(count, 1, *shape[2:])), shape)
        for error in (np.zeros(shape), biased, random.normal(size=shape)):
            yield size, examine(problem, policy, error, random.normal(size=shape[:-1]))


def _sharpened(size: Size, count: int, random: np.random.Generator) -> tuple[list[EntropyCurve], Any, Any]:
    """How much MAC saves as policies lose their entropy, with the true action values."""
    problem, policy = random_problems(random, count, size, HORIZON)
    nothing = np.zeros((count, HORIZON, size.states, size.actions))
    found = [_with_logits(problem, policy, sharper, nothing) for sharper in SHARPER]
    entropy = np.array([exact.entropy for exact in found]) / np.log(size.actions)  # [sharpness, problem]
    curves, rising, uniform = [], {}, {}
    for rival in RIVALS:
        saved = np.array([_total(exact.estimators[rival].actions) for exact in found])
        shares = saved / np.array([_total(exact.estimators[rival].independent) for exact in found])
        amounts = saved / saved.max(axis=0)
        low, high = np.quantile(shares, (0.25, 0.75), axis=1)
        lines = (entropy.mean(axis=1), shares.mean(axis=1), low, high, amounts.mean(axis=1))
        curves.append(EntropyCurve(rival, size.actions, *(tuple(map(float, line)) for line in lines)))
        ranks = np.array([_rank_correlation(entropy[:, i], saved[:, i]) for i in range(count)])
        rising[rival, size.actions] = (int(np.sum(ranks > 0)), count)
        uniform[rival, size.actions] = (float(amounts[0].mean()), float(shares[0].mean()))
    return curves, rising, uniform


def _rank_correlation(x: HostArray, y: HostArray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def _deterministic(size: Size, count: int, random: np.random.Generator) -> dict[str, Measured]:
    problem, policy = random_problems(random, count, size, HORIZON)
    error = random.normal(size=(count, HORIZON, size.states, size.actions))
    return _with_logits(problem, policy, DETERMINISTIC, error).estimators


def _with_logits(problem: Problem, policy: SoftmaxPolicy, factor: float, error: HostArray) -> Exact:
    sharper = policy._replace(parameters=factor * policy.parameters)
    return examine(problem, sharper, error, np.zeros(error.shape[:-1]))


def _of_counterexample() -> tuple[float, float]:
    problem, policy = counterexample()
    found = measure(problem, policy, action_values(problem, policy), objective(problem, policy))
    return float(found["actor_critic"].episode[0, 0]), float(found["mac"].episode[0, 0])


def _kind(size: Size) -> str:
    if size.parameters is None:
        return "tabular policies"
    return f"{size.states} states that share {size.parameters} parameter{'s' if size.parameters > 1 else ''}"


def _total(covariance: HostArray) -> HostArray:
    """Variance of all parameters together [problem]."""
    return np.trace(covariance, axis1=-2, axis2=-1)


def _apart(x: HostArray, y: HostArray) -> float:
    """The largest difference in any problem, relative to its largest number, or to 1, the size of a reward."""
    axes = tuple(range(1, x.ndim))
    return float(np.max(np.max(np.abs(x - y), axis=axes) / np.maximum(np.max(np.abs(x), axis=axes), 1.0)))


def _changed(one: Measured, other: Measured) -> float:
    return max(jax.tree.leaves(jax.tree.map(_apart, (one.mean, one.independent, one.episode),
                                            (other.mean, other.independent, other.episode))))  # fmt: skip

"""What to say of a training that has not gone well: one line each, with what to look at. Imports no JAX."""

import numpy as np

from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.learners import GENERAL
from mean_actor_critic.trees import Array

ENOUGH = 20  # episodes of a trial before anything is said of its returns
EARLY = 25  # episodes that show, at most, how a trial began: later ones may have been learned from
COLLAPSED = 0.02  # share of the uniform policy's entropy below which a policy hardly tries anything else
EXPLODED = 100.0  # mean square of the critics' error, where returns have about size 1


def advice(run: Run) -> list[str]:
    """What is amiss with a run; nothing where there is nothing to say, or the learner keeps no notes of its health."""
    entropy, error = (run.state_of_trials(f"health/{name}/mean") for name in ("entropy", "error"))
    updates = run.state_of_trials("health/error/n")
    if entropy is None or error is None or updates is None:
        return []
    if not updates.any():
        return ["nothing was learned: with so few --steps, all of them were of the warm-up, whose actions are random"]
    exploded = error > EXPLODED
    constant = _constant(run) & ~exploded
    flat = _stayed_flat(run) & ~exploded & ~constant
    collapsed = flat & (entropy < COLLAPSED) & (POLICY in algorithm_of(run.experiment.algorithm).parts)
    flat &= ~collapsed
    given = " ".join(settings_as_words(run.experiment.learner_settings_given()))
    first = f"{given}, " if given else ""
    lines = []
    if constant.any():
        lines.append(
            f"every episode of {_count(constant)} returned the same: look at the rewards, which play has never seen "
            "differ; at more --steps; or at a simpler task first"
        )
    if collapsed.any():
        lines.append(
            f"{_count(collapsed)} settled on actions before returns rose: look at {first}the rewards, or raise "
            f"{'uniform_pull' if run.experiment.learner == GENERAL else 'entropy_weight'}"
        )
    if flat.any():
        lines.append(
            f"returns of {_count(flat)} stayed flat, no better than at the beginning: look at {first}more --steps, "
            "and whether what is observed tells what to do"
        )
    if exploded.any():
        lines.append(
            f"the critics of {_count(exploded)} are far off (error {float(error.max()):.0f}): look at {first}rewards "
            "that grow without bound, or a lower learning_rate"
        )
    return lines


def _constant(run: Run) -> Array:
    """Whether all episodes of each trial had the same return [trials]."""
    spread = np.nanmax(run.returns, axis=1, initial=-np.inf) - np.nanmin(run.returns, axis=1, initial=np.inf)
    return (run.episodes_done >= ENOUGH) & (spread == 0)


def _stayed_flat(run: Run) -> Array:
    """Whether the last quarter of each trial's episodes was no better, beyond chance, than how it began [trials].

    Neither than its first quarter, of which most may have been played when it had learned already, nor than the few
    episodes before that.
    """
    flat = np.zeros(run.experiment.trials, bool)
    for trial, (returns, played) in enumerate(zip(run.returns, run.episodes_done.tolist(), strict=True)):
        if played < ENOUGH:
            continue
        quarter = played // 4
        last = np.asarray(returns[played - quarter : played], np.float64)
        flat[trial] = not any(_better(last, returns[:first]) for first in (quarter, min(quarter, EARLY)))
    return flat


def _better(last: Array, first: Array) -> bool:
    """Whether later returns are higher than earlier ones by more than chance."""
    before = np.asarray(first, np.float64)
    chance = np.sqrt(before.var() / len(before) + last.var() / len(last))
    return bool(last.mean() - before.mean() > 2 * chance)


def _count(trials: Array) -> str:
    """Which trials, in words."""
    return "the trial" if len(trials) == 1 else f"{int(trials.sum())} of {len(trials)} trials"

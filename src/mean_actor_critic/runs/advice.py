"""What to say of a training that has not gone well: one line each, with what to look at. Imports no JAX."""

import numpy as np

from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.trees import Array

ENOUGH = 20  # episodes of a trial before anything is said of its returns
COLLAPSED = 0.02  # share of the uniform policy's entropy below which a policy hardly tries anything else
EXPLODED = 100.0  # mean square of the critics' error, where returns have about size 1


def advice(run: Run) -> list[str]:
    """What is amiss with a run; nothing where there is nothing to say, or the learner keeps no notes of its health."""
    entropy, error = (run.state_of_trials(f"health/{name}/mean") for name in ("entropy", "error"))
    if entropy is None or error is None:
        return []
    lines = []
    flat = _stayed_flat(run)
    collapsed = flat & (entropy < COLLAPSED) & (POLICY in algorithm_of(run.experiment.algorithm).parts)
    if collapsed.any():
        lines.append(
            f"{_count(collapsed)} settled on actions before returns rose: look at the rewards, or raise uniform_pull"
        )
    flat &= ~collapsed
    if flat.any():
        lines.append(
            f"returns of {_count(flat)} stayed flat: look at whether random play ever meets a reward (mac check), "
            "and at more --steps"
        )
    exploded = error > EXPLODED
    if exploded.any():
        lines.append(
            f"the critics of {_count(exploded)} are far off (error {float(error.max()):.0f}): look at rewards that "
            "grow without bound, or lower learning_rate"
        )
    return lines


def _stayed_flat(run: Run) -> Array:
    """Whether the last quarter of each trial's episodes was no better than the first [trials], beyond chance."""
    flat = np.zeros(run.experiment.trials, bool)
    for trial, (returns, played) in enumerate(zip(run.returns, run.episodes_done.tolist(), strict=True)):
        if played < ENOUGH:
            continue
        quarter = played // 4
        first, last = (np.asarray(part, np.float64) for part in (returns[:quarter], returns[played - quarter : played]))
        chance = np.sqrt((first.var() + last.var()) / quarter)
        flat[trial] = last.mean() - first.mean() <= 2 * chance
    return flat


def _count(trials: Array) -> str:
    """Which trials, in words."""
    return "the trial" if len(trials) == 1 else f"{int(trials.sum())} of {len(trials)} trials"

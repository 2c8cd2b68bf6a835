"""Steps per second of training on Cart Pole: this engine, the plain JAX program, Stable-Baselines3."""

from typing import NamedTuple

from benchmarks import engine, plain_vmap, stable_baselines
from benchmarks.harness import alternating, speed_cells, table

ENGINE = "this engine, all devices"
PLAIN = "plain `jit(vmap(trial))`, one device, episodes as a while loop"
PLAIN_SCAN = "the same, episodes as a masked scan"


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: int = 100
    episodes: int = 200
    peer: stable_baselines.Size = stable_baselines.Size()


TOY = Size(1, 2, 3, stable_baselines.TOY._replace(ways=1))  # Lunar Lander tries them all


def measure(size: Size) -> str:
    study = {"trials": size.trials, "episodes": size.episodes}
    one_device = {**study, "all_devices": False}
    half = size.trials // 2
    variants = {
        ENGINE: (engine.train, study),
        f"its program on one device, groups of {half}": (engine.train, {**one_device, "width": half}),
        "the same, all trials at once": (engine.train, {**one_device, "width": size.trials}),
        PLAIN: (plain_vmap.train, {**study, "loop": "while"}),
        PLAIN_SCAN: (plain_vmap.train, {**study, "loop": "scan"}),
        **stable_baselines.variants("CartPole-v1", size.peer),
    }
    results = alternating(variants, size.repeats)

    rows = []
    for name, measurements in results.items():
        first = measurements[0]
        score = f"{first['mean_return']:.1f} ± {first['standard_error']:.1f}" if "mean_return" in first else ""
        rows.append([name, *speed_cells(results[ENGINE], measurements), score])
    return f"""## Cart Pole

MAC, {size.trials} trials × {size.episodes} episodes at the reference settings: 64 hidden units, Adam,
10 minibatches of 32 an episode, replay of 2000. Agent steps per second of training, compilation excluded; median and
range of {size.repeats} turns. *Times slower*: the engine's speed over the row's, median of the turns. *Mean return*:
over all trials and episodes, ± standard error; rows of the same work should agree. Stable-Baselines3 trains one agent
on CartPole-v1; with a thread per core it suffers most from other load, so judge by its faster row.

{table(["", "steps/s", "range", "times slower", "mean return"], rows)}
{stable_baselines.note()}"""

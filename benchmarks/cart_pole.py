"""Steps per second of training on Cart Pole: this engine, the plain JAX program, Stable-Baselines3."""

from benchmarks import engine, plain_vmap, stable_baselines
from benchmarks.harness import alternating, speed_cells, table

REPEATS = 3
STUDY = {"trials": 100, "episodes": 200}
PEER_STEPS = 20_000

ENGINE = "this engine, all devices"
PLAIN = "plain `jit(vmap(trial))`, one device, episodes as a while loop"
PLAIN_SCAN = "the same, episodes as a masked scan"


def report() -> str:
    one_device = {**STUDY, "all_devices": False}
    variants = {
        ENGINE: (engine.train, STUDY),
        "its program on one device, groups of 50": (engine.train, {**one_device, "width": 50}),
        "its program on one device, 100 trials at once": (engine.train, {**one_device, "width": 100}),
        PLAIN: (plain_vmap.train, {**STUDY, "loop": "while"}),
        PLAIN_SCAN: (plain_vmap.train, {**STUDY, "loop": "scan"}),
    }
    variants.update(stable_baselines.variants("CartPole-v1", PEER_STEPS))
    results = alternating(variants, REPEATS)

    rows = []
    for name, measurements in results.items():
        first = measurements[0]
        score = f"{first['mean_return']:.1f} ± {first['standard_error']:.1f}" if "mean_return" in first else ""
        rows.append([name, *speed_cells(results[ENGINE], measurements), score])
    return f"""## Cart Pole

MAC, {STUDY["trials"]} trials × {STUDY["episodes"]} episodes at the reference settings: 64 hidden units, Adam,
10 minibatches of 32 an episode, replay of 2000. Agent steps per second of training, compilation excluded; median and
range of {REPEATS} turns. *Times slower*: the engine's speed over the row's, median of the turns. *Mean return*: over
all trials and episodes, ± standard error; rows of the same work should agree. Stable-Baselines3 trains one agent on
CartPole-v1; with a thread per core it suffers most from other load, so judge by its faster row.

{table(["", "steps/s", "range", "times slower", "mean return"], rows)}
{stable_baselines.note()}"""

"""The seeds that hosted environments are reset with."""

import numpy as np


def reset_seed(seed: int, trial: int, episode: int, evaluation: bool = False) -> int:
    """What an environment is reset with for an episode, counted from 0: 31 bits, as every environment takes."""
    words = np.random.SeedSequence([seed, trial, episode, int(evaluation)]).generate_state(1, np.uint32)
    return int(words[0] >> 1)


def emulator_seed(seed: int, trial: int, environment: int, times: int, evaluation: int | None = None) -> int:
    """What an Atari emulator is seeded with, `times` counting how often it was before; in training or an evaluation."""
    phase = 0 if evaluation is None else evaluation + 1
    words = np.random.SeedSequence([seed, trial, environment, times, phase]).generate_state(1, np.uint32)
    return int(words[0] >> 1)

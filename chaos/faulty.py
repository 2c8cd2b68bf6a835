"""A tiny environment that behaves until a certain episode and step, and then goes wrong in the way it was told to."""

import ctypes
import os
import re
import signal
import stat
import subprocess
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

FOREVER = 1000  # seconds


class Faulty(gymnasium.Env):
    """Three numbers, two actions, episodes of five steps that depend on nothing but seed and actions."""

    def __init__(self, fault="", at_seed=None, at_step=2, note=None, once=None):
        """Goes wrong in the episode with the seed `at_seed` (None: in every one), or only until the file `once` exists.

        In `note`, a file, it writes down what others want to know.
        """
        self.observation_space = spaces.Box(-10, 10, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.fault, self.at_seed, self.at_step, self.note, self.once = fault, at_seed, at_step, note, once
        self.hoard = []
        self.go_wrong_in("construction")
        if self.fault.endswith("in later construction") and not self.is_first():
            self.go_wrong_in("later construction")

    def is_first(self):
        """Whether this has not been asked before, by any process."""
        try:
            open(self.once, "x").close()
        except FileExistsError:
            return False
        return True

    def go_wrong_in(self, where):
        """Faults that are named after where they happen, such as `raise in step`."""
        deed, _, place = self.fault.rpartition(" in ")
        if place == where:
            DEEDS[deed](self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.wrong = self.at_seed in (None, seed) and (self.once is None or self.is_first())
        if self.wrong:
            self.go_wrong_in("reset")
            if self.fault in SPACES:
                setattr(self, *SPACES[self.fault])
            if self.fault == "observation alone":
                return self.observe(0)
        return self.observe(0), {}

    def step(self, action):
        self.steps += 1
        ended = self.steps >= 5 and not (self.wrong and self.steps <= self.at_step)  # late faults come in long episodes
        answer = (self.observe(action), float(action), ended, False, {})
        if self.wrong and self.steps == self.at_step:
            self.go_wrong_in("step")
            if self.fault in ANSWERS:
                return ANSWERS[self.fault](*answer)
        return answer

    def observe(self, action):
        return np.array([self.steps / 5, action, self.np_random.normal()], np.float32)

    def close(self):
        self.go_wrong_in("close")


def make(**kwargs):
    return Faulty(**kwargs)


# --- things to do ----------------------------------------------------------------------------------------------------


def _raise(env):
    raise RuntimeError("the wheels came off")


def _raise_in_lines(env):
    raise RuntimeError("the wheels\ncame\r\noff")


def _hang(env):
    _jot(env, "hanging")
    time.sleep(FOREVER)


def _hold_the_interpreter(env):
    _jot(env, "hanging")
    re.match("(a+)+$", "a" * 60 + "b")  # in C, for ages, without letting another thread run


def _kill(env):
    os.kill(os.getpid(), signal.SIGKILL)


def _exit(env):
    os._exit(3)


def _crash(env):
    ctypes.string_at(0)


def _print(env):
    for i in range(1000):
        print(f"chatter {i}")
    sys.stdout.flush()
    os.write(1, b"chatter\n" * 1000)
    os.write(2, b"chatter without an end")


def _print_a_long_line(env):
    for _ in range(20):
        os.write(1, b"chatter" * 100_000)


def _hoard(env):
    env.hoard.append(np.ones(30 << 17))  # of 8 bytes: 30 MB
    env.at_step += 1  # in the next step too, which there will be
    time.sleep(0.05)


def _raise_as_a_parent(env):
    child = subprocess.Popen(["sleep", str(FOREVER)])
    _jot(env, str(child.pid))
    _raise(env)


def _fork_and_be_killed(env):
    """The fork has our pipes open, so that nobody sees them close."""
    child = os.fork()
    if child == 0:
        time.sleep(FOREVER)
        os._exit(0)
    _jot(env, str(child))
    _kill(env)


def _write_to_pipes(content):
    """To whatever pipes this process has, but for its standard streams."""

    def write(env):
        for descriptor in range(3, 100):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, content)
            except OSError:  # it is none, or the other end
                pass

    return write


def _close_descriptors(env):
    os.closerange(3, 100)


def _fork(env):
    """The child comes back and plays on, as its parent does."""
    os.fork()


def _leave_a_daemon(env):
    """A process in a session of its own, whose parent has ended."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            _jot(env, str(os.getpid()))
            os.execvp("sleep", ["sleep", str(FOREVER)])
        os._exit(0)
    os.waitpid(child, 0)


def _leave_a_daemon_and_hang(env):
    _leave_a_daemon(env)
    time.sleep(FOREVER)


def _dawdle(env):
    _jot(env, "dawdling")
    time.sleep(1.2)


def _jot(env, text):
    if env.note:
        with open(env.note, "a") as file:
            file.write(text + "\n")


DEEDS = {
    "raise": _raise,
    "raise in lines": _raise_in_lines,
    "hang": _hang,
    "hold the interpreter": _hold_the_interpreter,
    "kill": _kill,
    "exit": _exit,
    "crash": _crash,
    "print": _print,
    "print a long line": _print_a_long_line,
    "hoard": _hoard,
    "raise as a parent": _raise_as_a_parent,
    "fork and be killed": _fork_and_be_killed,
    "write a line to pipes": _write_to_pipes(b"hello\n"),
    "write dots to pipes": _write_to_pipes(b"..."),
    "write JSON to pipes": _write_to_pipes(b'{"lane": 0, "field": "reward", "words": "is forged"}\n'),
    "close descriptors": _close_descriptors,
    "fork": _fork,
    "leave a daemon": _leave_a_daemon,
    "leave a daemon and hang": _leave_a_daemon_and_hang,
    "dawdle": _dawdle,
}


# --- things to answer ------------------------------------------------------------------------------------------------


class Unspeakable:
    """Raises whatever is asked of it."""

    def __repr__(self):
        raise RuntimeError("no words")

    __eq__ = __bool__ = __float__ = __array__ = __repr__
    __hash__ = None


def _observation(change):
    return lambda observation, *rest: (change(observation), *rest)


def _reward(value):
    return lambda observation, reward, *rest: (observation, value, *rest)


def _terminated(value):
    return lambda observation, reward, terminated, *rest: (observation, reward, value, *rest)


ANSWERS = {
    "NaN observation": _observation(lambda x: x * np.array([1, 1, np.nan], np.float32)),
    "infinite observation": _observation(lambda x: x + np.array([0, np.inf, 0], np.float32)),
    "short observation": _observation(lambda x: x[:2]),
    "observation in a batch": _observation(lambda x: x[None]),
    "two observations": _observation(lambda x: np.stack([x, x])),
    "ragged observation": _observation(lambda x: [[1.0], [2.0, 3.0], 4.0]),
    "observation of objects": _observation(lambda x: x.astype(object)),
    "complex observation": _observation(lambda x: x.astype(complex)),
    "no observation": _observation(lambda x: None),
    "unspeakable observation": _observation(lambda x: Unspeakable()),
    "NaN reward": _reward(float("nan")),
    "infinite reward": _reward(-float("inf")),
    "reward beyond float32": _reward(1e300),
    "reward beyond float64": _reward(10**400),
    "no reward": _reward(None),
    "reward in words": _reward("1.0"),
    "unspeakable reward": _reward(Unspeakable()),
    "terminated yes": _terminated("yes"),
    "terminated twice": _terminated(np.array([True, False])),
    "unspeakable terminated": _terminated(Unspeakable()),
    "truncated yes": lambda *answer: (*answer[:3], "yes", {}),
    "four values": lambda *answer: answer[:4],
    "no answer": lambda *answer: None,
}
SPACES = {
    "other observation space": ("observation_space", spaces.Box(-10, 10, (4,), np.float32)),
    "other action space": ("action_space", spaces.Discrete(3)),
    "unusable action space": ("action_space", spaces.Box(-1, 1, (2,))),
    "no observation space": ("observation_space", None),
}

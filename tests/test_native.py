"""Convolutions in C++ against XLA's own, and what happens where they cannot be compiled."""

import os
import shlex
import shutil

import jax
import numpy as np
import pytest

from helpers import run_python
from mean_actor_critic.learning import kernels, native
from mean_actor_critic.learning.networks import CONVOLUTIONS, game_layer_shapes, initial_game_network

pytestmark = pytest.mark.slow

CXX = os.environ.get("CXX") or "c++"
has_compiler = pytest.mark.skipif(shutil.which(shlex.split(CXX)[0]) is None, reason="this machine has no C++ compiler")


@has_compiler
@pytest.mark.parametrize(
    ("shape", "n", "steps"),
    [
        ((4, 84, 84), 16, 1),
        ((4, 84, 84), 3, 2),
        ((2, 36, 36), 40, 2),
        ((4, 53, 53, 3), 1, 2),  # in colour
        ((1, 210, 210), 1, 1),
    ],
)
def test_forward_and_backward_equal_xla_s(shape, n, steps):
    assert native.compiler()
    random = np.random.default_rng(0)
    network = initial_game_network(jax.random.key(0), game_layer_shapes(shape, 3, 3))
    convolutions = jax.tree.map(lambda x: x + 0.1 * random.normal(size=x.shape).astype("f"), network.convolutions)
    observations = [random.integers(0, 256, (n, *shape), np.uint8) for _ in range(steps)]
    wanted = [jax.jit(kernels.XLA.forward)(convolutions, seen) for seen in observations]
    found = [jax.jit(native.NATIVE.forward)(convolutions, seen) for seen in observations]
    assert len(wanted[0]) == len(CONVOLUTIONS)
    assert_close(found, wanted)
    gradient = random.normal(size=(steps * n, *wanted[0][-1].shape[1:])).astype("f")
    trunks = (native.NATIVE, kernels.XLA)
    assert_close(*(jax.jit(trunk.backward)(convolutions, observations, wanted, gradient) for trunk in trunks))


def assert_close(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.any(np.asarray(other) != 0)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * float(np.abs(other).max()))


HASHED = """
import hashlib, os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import jax, numpy as np
from mean_actor_critic.learning import native
from mean_actor_critic.learning.networks import game_layer_shapes
assert native.compiler()
random = np.random.default_rng(0)
layers = game_layer_shapes((4, 84, 84), 3, 3).convolutions
layers = tuple(type(layer)(*(0.05 * random.normal(size=shape).astype("f") for shape in layer)) for layer in layers)
seen = random.integers(0, 256, (16, 4, 84, 84), np.uint8)
for _ in range(20):  # threads come when they can: one time and the next are not the same for them
    maps = jax.jit(native.NATIVE.forward)(layers, seen)
    gradient = jax.jit(native.NATIVE.backward)(layers, [seen, seen], [maps, maps],
                                               np.concatenate([maps[-1], -0.5 * maps[-1]]))
    parts = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((maps, gradient))]
    print(hashlib.sha256(b"".join(parts)).hexdigest())
"""


@has_compiler
def test_the_number_of_threads_changes_no_bits():
    outcomes = [run_python(HASHED, str(cores)) for cores in (1, 2)]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    (digest,) = {line for outcome in outcomes for line in outcome.out.split()}
    assert digest


USED = """
from mean_actor_critic.learning import kernels, native
from mean_actor_critic.engines import devices
from mean_actor_critic.learning.rollout import trunk
print(devices.versions("atari")["convolutions"])
print("XLA" if trunk() is kernels.XLA else "native")
"""


@pytest.mark.parametrize("settings", [{"MAC_NATIVE": "0"}, {"CXX": "no-such-compiler"}, {"CXX": "false"}])
def test_without_a_compiler_xla_convolves(tmp_path, settings):
    outcome = run_python(USED, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), **settings})
    assert (outcome.code, outcome.out.split(), outcome.err) == (0, ["XLA", "XLA"], "")


def test_a_compiler_that_does_not_come_back_is_given_up(tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o700)
    impatient = "from mean_actor_critic.learning import native\nnative.COMPILING_SECONDS = 0.5\n"
    outcome = run_python(impatient + USED, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CXX": str(slow)})
    assert (outcome.code, outcome.out.split(), outcome.err) == (0, ["XLA", "XLA"], "")


@has_compiler
def test_the_machine_compiles_once_and_says_what_with(tmp_path):
    made = []
    for _ in range(2):
        outcome = run_python(USED, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CXX": f"{CXX} -g0"})
        compiler, used = outcome.out.splitlines()
        assert (outcome.code, compiler, used, outcome.err) == (0, native.compiler(), "native", "")
        (library,) = (tmp_path / "mean_actor_critic" / "native").iterdir()
        made.append((library.name, library.stat().st_mtime_ns))
    assert made[0] == made[1]

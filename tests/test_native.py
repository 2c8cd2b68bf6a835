"""Convolutions in C++ against XLA's own, and what happens where they cannot be compiled."""

import os
import shutil

import jax
import numpy as np
import pytest

from helpers import run_python
from mean_actor_critic import kernels, native
from mean_actor_critic.networks import CONVOLUTIONS, game_layer_shapes, initial_game_network

has_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX") or "c++") is None, reason="this machine has no C++ compiler"
)


@has_compiler
@pytest.mark.parametrize(("stack", "side", "n"), [(4, 84, 3), (2, 36, 2), (12, 53, 1), (1, 210, 1)])
def test_forward_and_backward_equal_xla_s(stack, side, n):
    assert native.compiler()
    random = np.random.default_rng(0)
    network = initial_game_network(jax.random.key(0), game_layer_shapes((stack, side, side), 3, 3))
    convolutions = jax.tree.map(lambda x: x + 0.1 * random.normal(size=x.shape).astype("f"), network.convolutions)
    images = [random.normal(size=(n, side, side, stack)).astype("f") for _ in range(2)]
    wanted = [jax.jit(kernels.XLA.forward)(convolutions, seen) for seen in images]
    found = [jax.jit(native.NATIVE.forward)(convolutions, seen) for seen in images]
    assert len(wanted[0]) == len(CONVOLUTIONS)
    assert_close(found, wanted)
    gradients = [random.normal(size=maps[-1].shape).astype("f") for maps in wanted]
    back = [jax.jit(trunk.backward)(convolutions, images, wanted, gradients) for trunk in (native.NATIVE, kernels.XLA)]
    assert_close(*back)


def assert_close(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.any(np.asarray(other) != 0)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * float(np.abs(other).max()))


USED = """
from mean_actor_critic import kernels, native
from mean_actor_critic.training import devices
from mean_actor_critic.training.placement import placement
print(devices.versions("atari")["convolutions"])
print("XLA" if placement(16).trunk is kernels.XLA else "native")
"""


@pytest.mark.parametrize("settings", [{"MAC_NATIVE": "0"}, {"CXX": "no-such-compiler"}, {"CXX": "false"}])
def test_without_a_compiler_xla_convolves(tmp_path, settings):
    outcome = run_python(USED, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), **settings})
    assert (outcome.code, outcome.out.split(), outcome.err) == (0, ["XLA", "XLA"], "")


@has_compiler
def test_the_machine_compiles_once_and_says_what_with(tmp_path):
    made = []
    for _ in range(2):
        outcome = run_python(USED, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
        compiler, used = outcome.out.splitlines()
        assert (outcome.code, compiler, used, outcome.err) == (0, native.compiler(), "native", "")
        (library,) = (tmp_path / "mean_actor_critic" / "native").iterdir()
        made.append((library.name, library.stat().st_mtime_ns))
    assert made[0] == made[1]

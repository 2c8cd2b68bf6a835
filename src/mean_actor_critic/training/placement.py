"""Where the arrays of an Atari trial lie: spread over one device per core.

Each device convolves its share of the screens and owns a share of the large layer's features, so that the only things
that devices tell each other are small: screens' maps, and the gradients of the convolutions. With one program on one
device, XLA's own threads got next to nothing out of a second core.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from mean_actor_critic import kernels, native
from mean_actor_critic.kernels import Trunk
from mean_actor_critic.learners.shared_trunk import GameLearnerState
from mean_actor_critic.networks import CONVOLUTIONS, FEATURES, Activations, GameNetwork, Layer
from mean_actor_critic.training import devices


class Placement(NamedTuple):
    """Shardings, in the form of what they are for."""

    everywhere: NamedSharding
    rows: NamedSharding  # of a batch: screens, and maps made of them
    network: GameNetwork
    activations: Activations
    state: GameLearnerState
    trunk: Trunk  # how to convolve what lies there


@functools.cache
def placement(rows: int) -> Placement:
    """For batches of so many screens: on as many cores as share them and the features evenly; on one accelerator."""
    available = len(jax.devices()) if jax.default_backend() == "cpu" else 1
    count = next(n for n in range(available, 0, -1) if rows % n == 0 and FEATURES % n == 0)
    mesh = devices.mesh(count)
    everywhere: Any
    everywhere, first, second = (
        NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (devices.AXIS,), (None, devices.AXIS))
    )
    head = Layer(first, everywhere)
    network = GameNetwork(
        convolutions=(Layer(everywhere, everywhere),) * len(CONVOLUTIONS),
        features=Layer(second, first),
        policy=head,
        critic=head,
    )
    return Placement(
        everywhere=everywhere,
        rows=first,
        network=network,
        activations=Activations(
            observation=first,
            maps=(*(first,) * (len(CONVOLUTIONS) - 1), everywhere),  # the last feeds all features
            features=second,
            logits=everywhere,
            values=everywhere,
        ),
        state=GameLearnerState(network, network, everywhere, everywhere),
        trunk=_over_devices(native.NATIVE, mesh) if native.compiler() else kernels.XLA,
    )


def _over_devices(trunk: Trunk, mesh: Mesh) -> Trunk:
    """Each device does its own rows. XLA's own operations it can spread by itself, others it would not."""
    rows, everywhere = PartitionSpec(devices.AXIS), PartitionSpec()
    maps = (*(rows,) * (len(CONVOLUTIONS) - 1), everywhere)
    spread = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)

    def forward(convolutions: Sequence[Layer], images: Array) -> tuple[Array, ...]:
        *maps, last = trunk.forward(convolutions, images)
        return (*maps, jax.lax.all_gather(last, devices.AXIS, tiled=True))  # it feeds all features

    def backward(convolutions: Sequence[Layer], *steps: Any) -> tuple[Layer, ...]:
        return jax.lax.psum(trunk.backward(convolutions, *steps), devices.AXIS)

    return Trunk(
        spread(forward, in_specs=(everywhere, rows), out_specs=maps),
        spread(backward, in_specs=(everywhere, rows, rows, rows), out_specs=everywhere),
    )

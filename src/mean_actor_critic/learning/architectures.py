"""Which network settings ask for. Learners and agents know networks by nothing else."""

import functools
from typing import Any

from mean_actor_critic.learning.networks import (
    Network,
    game_layer_shapes,
    game_outputs,
    initial_game_network,
    initial_mlp,
    mlp,
    mlp_shapes,
)
from mean_actor_critic.learning.torsos import stacked_network


def network_of(setup: Any) -> Network:
    """By the parts of an observation where settings have them, a perceptron for layers, else the paper's for games."""
    if hasattr(setup, "parts"):
        return _for_policy_and_values(setup) if hasattr(setup, "outputs_for") else stacked_network(setup)
    if hasattr(setup, "hidden"):
        outputs = functools.partial(mlp, activation=setup.activation)
        return Network(functools.partial(mlp_shapes, setup.hidden), initial_mlp, outputs)
    return Network(game_layer_shapes, initial_game_network, game_outputs, shared=True)


def _for_policy_and_values(setup: Any) -> Network:
    """A torso that puts out the policy's logits and, beside them, the critic's values; agents are told the logits."""
    network = stacked_network(setup)

    def shapes(observation: Any, actions: int) -> Any:
        return network.shapes(observation, setup.outputs_for(actions))

    def logits(stack: Any, seen: Any) -> Any:
        outputs = network.outputs(stack, seen)
        return outputs[..., : setup.actions_among(outputs.shape[-1])]

    return network._replace(shapes=shapes, outputs=logits)

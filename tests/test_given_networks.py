"""A user's own network, from Python: objects like flax's and plain functions, on observations as they are."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import mean_actor_critic as mac
from helpers import arrays_of, message_of
from mean_actor_critic.environments.spaces import flatten, form_of
from mean_actor_critic.learning.given import unflattened
from short_runs import assert_same_arrays

SMALL = {"trials": 2, "seed": 5, "warm_up": 20, "sequences": 2, "environments": 2, "progress": False}


class LikeFlax:
    """A perceptron with the two methods of a flax module, whose weights are a dictionary."""

    def init(self, key, observation):
        return {"params": {"kernel": jax.random.normal(key, (observation.shape[-1], 8)), "bias": jnp.zeros(8)}}

    def apply(self, variables, observation):
        layer = variables["params"]
        return jnp.tanh(observation @ layer["kernel"] + layer["bias"])


def first_weights(key, observation):
    del observation
    return [jax.random.normal(key, (6, 4))]


def embedded(weights, observation):
    """Features of a Frozen Lake's square, which is a whole number."""
    assert jnp.issubdtype(observation.dtype, jnp.integer)
    (table,) = weights
    return table[observation % 6]


def train(folder, network, environment="CartPole-v1", **more):
    return mac.train(environment, network=network, out=folder, **{"steps": 60, **SMALL, **more})


@pytest.mark.parametrize(
    ("environment", "network", "engine", "observation"),
    [
        ("CartPole-v1", LikeFlax(), "compiled", np.zeros((3, 4), np.float32)),
        ("FrozenLake-v1", (first_weights, embedded), "hosted", np.arange(3)),
    ],
)
def test_it_learns_in_the_place_of_ours_and_is_asked_for_again(environment, network, engine, observation, tmp_path):
    run = train(tmp_path / "run", network, environment, engine=engine, steps=40)
    assert run.experiment.network.name.startswith(f"{__name__}:")
    arrays = arrays_of(run)
    own = [name for name in arrays if name.startswith("state/networks/own/")]
    lags = [np.ptp(arrays[name] - arrays[name.replace("networks", "targets", 1)]) for name in own]
    assert max(lags) > 0, "it is trained, and its target lags behind"
    assert "network" in message_of(lambda: mac.resume(run.path, steps=60, progress=False))
    with pytest.raises(mac.InputError, match="which this was trained with"):
        mac.resume(run.path, steps=60, network=(embedded, first_weights), progress=False)
    longer = mac.resume(run.path, steps=60, network=network, progress=False)
    assert_same_arrays(arrays_of(longer), arrays_of(train(tmp_path / "whole", network, environment, engine=engine)))

    with pytest.raises(mac.InputError, match="given from Python"):
        mac.Run.load(run.path).agent(0)
    agent = mac.Run.load(run.path, network=network).agent(0)
    agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(mac.InputError, match="given from Python"):
        mac.Agent.load(tmp_path / "agent.safetensors")
    again = mac.Agent.load(tmp_path / "agent.safetensors", network=network)
    np.testing.assert_array_equal(again.action_probabilities(observation), agent.action_probabilities(observation))
    np.testing.assert_allclose(agent.action_probabilities(observation).sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (3, "init(key, observation) and apply(weights, observation)"),
        ((lambda key, seen: {"w": jnp.zeros(3, jnp.int32)}, lambda weights, seen: seen), "float32"),
        ((lambda key, seen: (), lambda weights, seen: seen[0]), "of one it gave the shape (4,)"),
        ((lambda key, seen: (), lambda weights, seen: seen @ jnp.zeros((5, 2))), "it raised TypeError"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_before_anything_is_written(network, words, tmp_path):
    message = message_of(lambda: train(tmp_path / "run", network))
    assert message.startswith("network: ")
    assert words in message
    assert "\n" not in message
    assert not (tmp_path / "run").exists()


def test_the_paper_s_learner_has_no_place_for_one(tmp_path):
    asked = {"network": LikeFlax(), "learner": "episodic", "episodes": 2, "out": tmp_path / "run"}
    assert "a learner for any environment" in message_of(lambda: mac.train("CartPole-v1", **asked))


SPACE = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (6, 5, 3), np.uint8),
        "inner": spaces.Tuple((spaces.Discrete(4, start=2), spaces.MultiDiscrete([3, 2]))),
        "flags": spaces.MultiBinary((2, 2)),
        "speed": spaces.Box(-1, 1, (2, 2), np.float64),
        "words": spaces.Text(5),
    }
)


def test_observations_come_in_their_own_form():
    """What is flattened for the replay is what the environment showed, in shape, type and value; text is left out."""
    SPACE.seed(3)
    shown = [SPACE.sample() for _ in range(4)]
    flat = np.stack([flatten(SPACE, one) for one in shown])
    whole = unflattened(form_of(SPACE), jnp.asarray(flat))
    assert set(whole) == set(SPACE.spaces) - {"words"}
    together = gymnasium.vector.utils.concatenate(
        spaces.Dict({key: SPACE[key] for key in whole}),
        [{key: one[key] for key in whole} for one in shown],
        gymnasium.vector.utils.create_empty_array(spaces.Dict({key: SPACE[key] for key in whole}), 4),
    )

    def same(found, expected):
        assert found.shape == expected.shape
        assert found.dtype == jax.dtypes.canonicalize_dtype(expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    assert isinstance(whole["inner"], tuple)
    jax.tree.map(same, whole, dict(together))

import numpy as np

import mean_actor_critic as mac


def test_trains_and_reloads(tmp_path):
    run = mac.train("CartPole-v0", trials=3, episodes=4, seed=0, out=tmp_path / "run")
    assert run.returns.shape == (3, 4)
    assert run.status == ["finished"] * 3
    assert np.array_equal(mac.Run.load(run.path).returns, run.returns)

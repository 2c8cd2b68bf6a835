"""The store as a state machine: whatever is written, killed and damaged, readers see what was kept last."""

import shutil
import tempfile
from pathlib import Path

import gymnasium
import hypothesis.strategies as st
import numpy as np
import pytest
from chaos.crashes import Calls, Crash
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.runs import store
from mean_actor_critic.spec.experiment import make_experiment

SPACES = Spaces(gymnasium.spaces.Box(-1, 1, (4,), np.float32), gymnasium.spaces.Discrete(2))
NOT_A_CALL = 16  # a write has fewer file calls


class Store(RuleBasedStateMachine):
    """A run folder, and what is known of it: the generations on disk, oldest first, and which of them are damaged."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        experiment = make_experiment("CartPole-v0", "mac", 1, 1000, 0, {"hidden": (4,)})
        self.manifest = store.create_run(self.folder / "run", experiment, SPACES, 1, {})
        self.run, self.position = self.folder / "run", 0
        self.kept: dict[int, bool] = {}  # position: whether it is whole

    def teardown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self):
        self.position += 1
        with store.sole_writer(self.run):
            store.write_checkpoint(self.run, self.manifest, self.position, {"x": np.float32([self.position])})

    def there(self):
        return {int(file.stem.split("-")[1]) for file in self.run.glob("checkpoint-*.safetensors")}

    @rule()
    def is_written(self):
        self.write()
        self.kept = dict(sorted({**self.kept, self.position: True}.items())[-store.GENERATIONS :])
        assert self.there() == set(self.kept)

    @rule(point=st.integers(1, NOT_A_CALL), share=st.floats(0, 1))
    def is_killed_while_it_writes(self, point, share):
        before = set(self.kept)
        try:
            with Calls(point, "dead", share):
                self.write()
        except Crash:
            pass
        there = self.there()
        assert there >= set(sorted(before)[-1:])  # the newest is never taken away
        assert there <= {*before, self.position}
        self.kept = {position: self.kept.get(position, True) for position in sorted(there)}

    @precondition(lambda self: any(self.kept.values()))
    @rule(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.booleans())
    def is_damaged(self, place, bit, cut):
        newest = max(position for position, whole in self.kept.items() if whole)
        file = self.run / f"checkpoint-{newest:012d}.safetensors"
        content = bytearray(file.read_bytes())
        content[place % len(content)] ^= 1 << bit
        file.write_bytes(content[: place % len(content)] if cut else content)
        self.kept[newest] = False

    @rule()
    def is_gone_on_with(self):
        """By a new process: it takes the lock, clears what is half written, and sets damaged generations aside."""
        newest = max((position for position, whole in self.kept.items() if whole), default=None)
        with store.sole_writer(self.run):
            assert not list(self.run.glob(".*.tmp"))
            if newest is None and self.kept:
                with pytest.raises(DamagedFileError):
                    store.read_checkpoint(self.run, self.manifest, set_aside=True)
                return
            store.read_checkpoint(self.run, self.manifest, set_aside=True)
        self.kept = {position: whole for position, whole in self.kept.items() if newest is None or position <= newest}
        assert self.there() == set(self.kept)

    @invariant()
    def readers_see_the_newest_that_is_whole(self):
        newest = max((position for position, whole in self.kept.items() if whole), default=None)
        damaged = [position for position in self.kept if newest is None or position > newest]
        if newest is None and damaged:
            with pytest.raises(DamagedFileError):
                store.read_checkpoint(self.run, self.manifest)
            return
        arrays, warnings = store.read_checkpoint(self.run, self.manifest)
        assert (arrays and arrays["x"].tolist()) == (newest and [newest])
        assert len(warnings) == len(damaged)


LIMITS = settings(
    max_examples=15, stateful_step_count=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_readers_see_what_was_kept_last():
    run_state_machine_as_test(Store, settings=LIMITS)


def test_a_store_that_writes_in_place_is_found(monkeypatch):
    def in_place(path, content):
        with path.open("wb") as file:
            file.write(content)

    monkeypatch.setattr(store, "write_whole", in_place)
    with pytest.raises((AssertionError, DamagedFileError)):
        run_state_machine_as_test(Store, settings=settings(LIMITS, max_examples=50, phases=[Phase.generate]))

"""The bits of small runs are those that were recorded, on machines of a kind that was."""

import pytest

import golden

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("name", golden.CASES)
def test_the_bits_are_those_that_were_recorded(name, tmp_path):
    known = golden.recorded().get(golden.kind())
    if known is None:
        pytest.skip("no digests were recorded on a machine of this kind (python tests/golden.py records them)")
    assert golden.train(name, tmp_path) == known[name]

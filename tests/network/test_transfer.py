"""Many arrays in one copy."""

import numpy as np
import pytest
from device import MODULE, ON_GPU, TRANSFERS, DeviceArray, counted, use_device

from spacy_rootmind.network.transfer import to_device, to_host

pytestmark = pytest.mark.skipif(ON_GPU, reason="counts what CuPy does not")

ARRAYS = [
    np.arange(6, dtype="i4").reshape(2, 3),
    np.array([True, False, True]),
    np.arange(8.0).reshape(4, 2).T,
    np.zeros((0, 3), dtype="f4"),
    np.array(1.5, dtype="f4"),
    np.array([-1, 2**60]),
    np.array([[np.nan, np.inf]], dtype="f4"),
]


@pytest.mark.parametrize("arrays", [ARRAYS, ARRAYS[::-1], ARRAYS[3:4]])
def test_arrays_come_back_as_they_were_sent(monkeypatch, arrays):
    use_device(monkeypatch)
    with counted():
        there = to_device(MODULE, arrays)
        back = to_host(MODULE, there)
        assert (len(TRANSFERS.uploads), len(TRANSFERS.downloads)) == (1, 1)
    for sent, own, found in zip(arrays, there, back, strict=True):
        assert isinstance(own, DeviceArray)
        assert own.flags["C_CONTIGUOUS"]
        assert found.flags["ALIGNED"]
        assert (own.dtype, own.shape) == (found.dtype, found.shape) == (sent.dtype, sent.shape)
        np.testing.assert_array_equal(found, sent)


def test_nothing_is_copied_without_need():
    with counted():
        assert to_device(MODULE, []) == to_host(MODULE, []) == []
        assert not TRANSFERS.uploads + TRANSFERS.downloads
    for copy in (to_device, to_host):
        assert all(a is b for a, b in zip(copy(np, ARRAYS), ARRAYS, strict=True))

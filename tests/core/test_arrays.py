"""How batches are taken apart."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import as_batch, batch_size, take


def test_batches_of_mappings_and_arrays():
    mapping = {"a": np.arange(3), "b": np.arange(6).reshape(3, 2)}
    assert (batch_size(mapping), batch_size(mapping["b"])) == (3, 3)
    np.testing.assert_equal(take(mapping, 1), {"a": 1, "b": np.array([2, 3])})
    np.testing.assert_equal(take(mapping["b"], [0, 2]), np.array([[0, 1], [4, 5]]))
    np.testing.assert_equal(as_batch({"a": 1, "b": [2, 3]}), {"a": np.array([1]), "b": np.array([[2, 3]])})
    np.testing.assert_equal(as_batch([2, 3]), np.array([[2, 3]]))

"""Layouts of matrices in the table of learned numbers."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.compiled.tables import LANES, TILE, Tables, in_blocks, number, padded, tiled, triangle


def test_tiles_hold_successive_columns():
    matrix = np.arange(3 * 20.0).reshape(3, 20)
    tiles = tiled(matrix).reshape(2, 3, TILE)
    np.testing.assert_array_equal(tiles[0], matrix[:, :TILE])
    np.testing.assert_array_equal(tiles[1, :, :4], matrix[:, TILE:])
    assert not tiles[1, :, 4:].any()


@pytest.mark.parametrize("size", [5, 16, 37])
def test_a_triangle_has_the_norms_of_its_root(size):
    rng = np.random.default_rng(size)
    root, x = rng.normal(size=(size, size)), rng.normal(size=size)
    flat, total, start = triangle(root), 0.0, 0
    wide = np.concatenate([x, np.zeros(padded(size) - size)])
    for j in range(0, padded(size), TILE):
        rows = padded(size) - j
        total += float(((wide[j:] @ flat[start : start + rows * TILE].reshape(rows, TILE)) ** 2).sum())
        start += rows * TILE
    assert start == len(flat)
    assert total == pytest.approx(float(((root.T @ x) ** 2).sum()), rel=1e-12)


def test_blocks_are_filled_with_the_first_action():
    blocks = in_blocks(np.arange(20.0).reshape(10, 2)).reshape(2, 2, LANES)
    np.testing.assert_array_equal(blocks[0, 1], np.arange(1.0, 16.0, 2))
    np.testing.assert_array_equal(blocks[1, 0], [16, 18, 0, 0, 0, 0, 0, 0])


def test_numbers_keep_all_their_digits():
    for value in (0.1, 1.0, -3e-310, 1e300, 5e-324):
        assert float(number(value, single=False).rstrip(",")) == value
    assert number(np.inf, single=True) == "INFINITY,"
    assert number(1e300, single=True) == "INFINITY,"
    assert number(2.0, single=True) == "2.0f,"
    with pytest.raises(ValueError, match="a shield that learned a NaN cannot be exported: fit it again"):
        number(np.nan, single=False)


def test_tables_begin_one_after_the_other():
    tables = Tables()
    assert [tables.add("a", [1.0, 2.0]), tables.add("b", 3.0)] == [0, 2]
    np.testing.assert_array_equal(tables.values, [1.0, 2.0, 3.0])
    assert "/* b */" in tables.as_c(single=False)

"""Triangular roots and products with them."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.quantifiers.gp.triangle import Triangle, lower_root


def test_the_root_is_triangular_and_gives_the_same_norms():
    rng = np.random.default_rng(0)
    root, x = rng.normal(size=(50, 50)), rng.normal(size=(7, 50))
    found = lower_root(root)
    np.testing.assert_array_equal(found, np.tril(found))
    np.testing.assert_allclose(np.linalg.norm(x @ found, axis=1), np.linalg.norm(x @ root, axis=1), rtol=1e-13)


def test_the_root_of_a_triangle_is_the_same_to_the_last_digit():
    found = lower_root(np.random.default_rng(0).normal(size=(50, 50)))
    np.testing.assert_array_equal(lower_root(found), found)  # so that C and Python use the same numbers


@pytest.mark.parametrize("shape", [np.tril, np.triu, np.zeros_like])
@pytest.mark.parametrize("size", [1, 31, 32, 70])
def test_products_skip_zeros_alone(shape, size):
    rng = np.random.default_rng(0)
    matrix, x = shape(rng.normal(size=(size, size))), rng.normal(size=(5, size))
    np.testing.assert_allclose(Triangle(matrix)(x), x @ matrix, rtol=1e-12, atol=1e-12)

"""One-step model of the whole state: a polynomial of states and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.polynomial import Polynomial

PREFIX = "dynamics."
"""Prefix of the names of its arrays in a file."""


class Dynamics:
    """Change of a state in one step, x' = x + Wᵀφ(x, a), where φ contains all monomials up to a degree.

    Args:
        degree: degree of the monomials; inputs of degree 2 or 3 are clipped beyond the data (`Polynomial`).
        inputs: entries of the state that the change depends on; all by default. Every entry is predicted.
    """

    def __init__(self, degree: int, inputs: tuple[int, ...] | None = None) -> None:
        self.degree = degree
        self.inputs = inputs
        self._change = Polynomial(degree)
        self._linear: tuple[Array, Array, Array] | None = None

    @property
    def polynomial(self) -> Polynomial:
        """The change of a state as a polynomial."""
        return self._change

    @property
    def linear(self) -> tuple[Array, Array, Array] | None:
        """A model of degree 1 as matrices of states (ds, ds) and actions (da, ds), and a constant (ds,)."""
        return self._linear

    @property
    def known(self) -> bool:
        """Whether the model has learned anything."""
        return self._change.known

    @property
    def noise(self) -> Array:
        """Root-mean-square residual (ds,) of one step."""
        return self._change.noise

    def add(self, states: Array, actions: Array, following: Array) -> None:
        """Learn from transitions: states (n, ds), encoded actions (n, da), next states (n, ds)."""
        self._change.add(self._pairs(states, actions), following - states)
        self._linear = self._folded(states.shape[1])

    def shrunk(self, ridge: float) -> Dynamics:
        """Copy whose weights are penalised (`Polynomial.shrink`)."""
        other = Dynamics(self.degree, self.inputs)
        other.restore(self.state())
        other._change.shrink(ridge)
        other._linear = other._folded(len(other.noise))
        return other

    def step(self, states: Array, actions: Array) -> Array:
        """Next states (n, ds)."""
        if self._linear is not None:  # the same in three products, since no feature has to be clipped
            of_states, of_actions, constant = self._linear
            following = states @ of_states
            following += actions @ of_actions
            following += constant
            return following
        return states + self._change.at(self._change.features(self._pairs(states, actions)))

    def leverage(self, states: Array, actions: Array) -> Array:
        """Uncertainty at these inputs (n,): standard deviation of the prediction, in units of the residual's."""
        return self._change.leverage(self._change.features(self._pairs(states, actions)))

    def state(self) -> dict[str, Array]:
        """Named arrays, to be saved."""
        return self._change.state(PREFIX)

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the output of `state`."""
        self._change.restore(state, PREFIX)
        self._linear = self._folded(len(self.noise)) if self.known else None

    def _pairs(self, states: Array, actions: Array) -> Array:
        return np.concatenate([states if self.inputs is None else states[:, list(self.inputs)], actions], axis=1)

    def _folded(self, size: int) -> tuple[Array, Array, Array] | None:
        """A linear model as matrices of plain states (ds, ds) and actions (da, ds), and a constant (ds,)."""
        if self.degree != 1:
            return None
        slopes, constant = self._change.slopes()
        inputs = list(range(size)) if self.inputs is None else list(self.inputs)
        of_states = np.eye(size)
        np.add.at(of_states, inputs, slopes[: len(inputs)])
        return of_states, slopes[len(inputs) :], constant

"""Jacobian J of a network in its parameters, as products with vectors: Jv and Jᵀu.

To push a vector through a linear layer and to pull one back, PyTorch multiplies the batch with matrices four times. In
a network of linear layers and functions without parameters, two products are enough: the inputs of a layer, and the
derivatives of the network's outputs with respect to the layer's, are the same for every vector and computed once. They
also give an approximate inverse of the Fisher matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch as th
from torch import Tensor, nn

from safexp.learners.trust_region import Product, flatten, split

FEW_OUTPUTS = 8
"""Number of outputs above which storing the derivatives costs more than it saves."""


class Jacobian:
    """The outputs (n, k) of any model, and their Jacobian J in its parameters (p,), flattened in their order.

    Jv is the derivative of u ↦ Jᵀu, which is linear: its graph, like that of the outputs, is built once for all
    vectors, whereas a forward-mode pass would recompute the outputs each time.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, Tensor], inputs: Any) -> None:
        parts = list(parameters.values())
        self._point = flatten(parts).detach().requires_grad_()
        named = dict(zip(parameters, split(self._point, parts), strict=True))
        self._graph: Tensor = th.func.functional_call(model, named, (inputs,), tie_weights=False)
        self._seed = th.zeros_like(self._graph, requires_grad=True)
        (self._pulled,) = th.autograd.grad(self._graph, self._point, self._seed, create_graph=True)
        self.outputs = self._graph.detach()

    def push(self, vector: Tensor) -> Tensor:
        """Jv, (n, k)."""
        return th.autograd.grad(self._pulled, self._seed, vector, retain_graph=True)[0]

    def pull(self, vector: Tensor) -> Tensor:
        """Jᵀu, (p,)."""
        return th.autograd.grad(self._graph, self._point, vector, retain_graph=True)[0]

    def approximate_inverse(self, metric: Product, damping: float) -> Product:
        """Product with roughly (JᵀMJ / n + damping)⁻¹, here the identity; `metric` multiplies (n, k) by M."""
        return lambda vector: vector


class LinearLayer(NamedTuple):
    """A linear layer: its inputs with a 1 appended (n, i+1), and derivatives of each network output in its own (n, o).

    Its weights and biases are one matrix (o, i+1).
    """

    inputs: Tensor
    sensitivities: list[Tensor]

    def push(self, change: Tensor, tangent: Tensor) -> None:
        """Add the effect of a change of the weights to the outputs' tangent (n, k)."""
        moved = self.inputs @ change.T
        for column, sensitivity in enumerate(self.sensitivities):
            tangent[:, column] += (sensitivity * moved).sum(dim=1)

    def pull(self, cotangent: Tensor) -> Tensor:
        """Gradient of the weights for a cotangent (n, k) of the outputs."""
        return self._outgoing(cotangent).T @ self.inputs

    def approximate_inverse(self, metric: list[Tensor], damping: float) -> Product:
        """Product with (G ⊗ A + damping)⁻¹; `metric` has the columns of M, (n, k) each.

        The layer's block of JᵀMJ / n is the mean over the batch of Kronecker products of outputs and inputs. As in
        K-FAC (Martens and Grosse, 2015) it is approximated by the product of their means, G and A.
        """
        pairs = zip(self.sensitivities, metric, strict=False)
        outgoing = sum(part.T @ self._outgoing(column) for part, column in pairs) / len(self.inputs)
        sizes_in, basis_in = th.linalg.eigh(self.inputs.T @ self.inputs / len(self.inputs))
        sizes_out, basis_out = th.linalg.eigh(outgoing)
        scale = 1 / (sizes_out.clamp(min=0)[:, None] * sizes_in.clamp(min=0) + damping)
        return lambda change: basis_out @ (scale * (basis_out.T @ change @ basis_in)) @ basis_in.T

    def _outgoing(self, cotangent: Tensor) -> Tensor:
        total = th.zeros_like(self.sensitivities[0])
        for column, sensitivity in enumerate(self.sensitivities):
            total.addcmul_(cotangent[:, column, None], sensitivity)
        return total


class LayeredJacobian(Jacobian):
    """Jacobian of a network of linear layers, with a parameter (the tail) appended to the outputs of every row."""

    def __init__(
        self, outputs: Tensor, parameters: Mapping[str, Tensor], layers: dict[str, LinearLayer], tail: str | None
    ) -> None:
        self.outputs = outputs
        self._parameters = parameters
        self._layers = layers
        self._tail = tail
        self._inner = len(next(iter(layers.values())).sensitivities)

    def push(self, vector: Tensor) -> Tensor:
        changes, tail = self._part(vector)
        tangent = th.zeros_like(self.outputs)
        tangent[:, self._inner :] = tail
        for name, layer in self._layers.items():
            layer.push(changes[name], tangent)
        return tangent

    def pull(self, vector: Tensor) -> Tensor:
        changes = {name: layer.pull(vector) for name, layer in self._layers.items()}
        return self._join(changes, vector[:, self._inner :].sum(dim=0))

    def approximate_inverse(self, metric: Product, damping: float) -> Product:
        """Inverse of the Fisher matrix reduced to the blocks of single layers and of the tail."""
        units = th.eye(self.outputs.shape[1], dtype=self.outputs.dtype, device=self.outputs.device)
        columns = [metric(unit.expand_as(self.outputs)) for unit in units]
        inverses = {name: layer.approximate_inverse(columns, damping) for name, layer in self._layers.items()}
        block = th.stack([column.mean(dim=0) for column in columns])[self._inner :, self._inner :]
        tail_inverse = th.linalg.inv(block + damping * units[self._inner :, self._inner :])

        def product(vector: Tensor) -> Tensor:
            changes, tail = self._part(vector)
            return self._join({name: inverses[name](change) for name, change in changes.items()}, tail_inverse @ tail)

        return product

    def _part(self, vector: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Split a flat vector into the parts of each layer and of the tail."""
        parts = split(vector, list(self._parameters.values()))
        named: dict[str | None, Tensor] = dict(zip(self._parameters, parts, strict=True))
        changes = {
            name: th.cat([named[f"{name}.weight"], named[f"{name}.bias"][:, None]], dim=1) for name in self._layers
        }
        return changes, named.get(self._tail, vector[:0])

    def _join(self, changes: Mapping[str, Tensor], tail: Tensor) -> Tensor:
        named: dict[str | None, Tensor] = {self._tail: tail}
        for name, change in changes.items():
            named[f"{name}.weight"], named[f"{name}.bias"] = change[:, :-1], change[:, -1]
        return flatten([named[name] for name in self._parameters])


def differentiate(model: nn.Module, parameters: Mapping[str, Tensor], inputs: Any, tail: str | None = None) -> Jacobian:
    """The outputs of a model and their Jacobian in some of its parameters, layer by layer where possible.

    `tail` names a parameter that is appended to the outputs of every row, such as the log standard deviations.
    """
    linear = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    own = {name: part for name, part in linear.items() if {f"{name}.weight", f"{name}.bias"} <= parameters.keys()}
    covered = {f"{name}.{kind}" for name in own for kind in ("weight", "bias")} | {tail}
    if not own or parameters.keys() - covered:
        return Jacobian(model, parameters, inputs)
    passed: list[tuple[str, Tensor, Tensor]] = []

    def watch(name: str) -> Callable[..., None]:
        return lambda _, arguments, output: passed.append((name, arguments[0].detach(), output))

    watches = [part.register_forward_hook(watch(name)) for name, part in own.items()]
    try:
        outputs: Tensor = model(inputs)
    finally:
        for handle in watches:
            handle.remove()
    inner = outputs.shape[1] - (parameters[tail].numel() if tail is not None and tail in parameters else 0)
    once_each = sorted(name for name, _, _ in passed) == sorted(own)
    if not once_each or inner > FEW_OUTPUTS or any(given.dim() != 2 for _, given, _ in passed):
        return Jacobian(model, parameters, inputs)
    ends = [end for _, _, end in passed]
    changes = [
        th.autograd.grad(outputs[:, column].sum(), ends, retain_graph=True, materialize_grads=True)
        for column in range(inner)
    ]
    ones = outputs.new_ones(len(outputs), 1)
    layers = {
        name: LinearLayer(th.cat([given, ones], dim=1), list(sensitivities))
        for (name, given, _), *sensitivities in zip(passed, *changes, strict=True)
    }
    return LayeredJacobian(outputs.detach(), parameters, layers, tail)

"""Export of a trained policy to ONNX, to run without torch; the shield runs beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike
from torch import nn

from safexp.core.encoding import ActionSpace
from safexp.core.extras import needed_for
from safexp.core.files import write_bytes
from safexp.envs.observations import THRESHOLD
from safexp.mase.mase import MASE
from safexp.mase.network import layers_of

OPSET = 17
IR_VERSION = 8
"""Versions that runtimes of 2022 support."""

FLOAT = np.dtype(np.float32)

ACTIVATIONS = {nn.Tanh: "Tanh", nn.ReLU: "Relu", nn.Sigmoid: "Sigmoid", nn.ELU: "Elu", nn.LeakyReLU: "LeakyRelu"}


def export_onnx(agent: MASE, path: str | Path) -> None:
    """Export the deterministic policy of an agent, as it would act without its shield.

    Inputs are `observation` (n, ...), raw, or the parts of a Dict observation under their keys, and, if the learner saw
    the remaining budget, `threshold` (n, K), the b_h of `ShieldedPolicy.threshold`; the output `action` has a batch
    axis too. All are single precision, discrete actions int64.

    The shield is not in the file: wrap the policy in a `ShieldedPolicy`.

    Args:
        agent: the agent.
        path: the file to write.

    Raises:
        MissingExtraError: if `onnx` is not installed.
        ValueError: if the policy is not a chain of layers on numbers.

    Example:
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
        >>> agent = safexp.MASE(envs, safexp.Budget(3.0), safexp.Unknown(), safexp.TRPO, seed=0)
        >>> safexp.export_onnx(agent, "policy.onnx")
        >>> Path("policy.onnx").exists()
        True
    """
    with needed_for("exporting a policy"):
        from onnx import checker, helper
    graph = _Graph(helper)
    inputs, value = _inputs(graph, agent)
    layers, squashed = layers_of(agent.learner.policy)
    for layer in layers:
        value = _layer(graph, layer, value)
    output = _action(graph, agent.shield.action_space, value, squashed)
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", inputs, [output], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="safexp",
    )
    checker.check_model(model, full_check=True)
    write_bytes(Path(path), model.SerializeToString())


def _inputs(graph: _Graph, agent: MASE) -> tuple[list[Any], str]:
    """The inputs of a policy, and the name of all of them as one vector (n, d)."""
    raw, seen = agent.shield.observation_space, agent.guard.observation_space
    shown = agent.guard.show_threshold
    parts: dict[str, spaces.Space[Any]] = (
        {name: part for name, part in seen.spaces.items() if name != THRESHOLD or not shown}
        if isinstance(seen, spaces.Dict)
        else {"observation": raw}
    )
    for name, part in parts.items():
        if not isinstance(part, spaces.Box):
            raise ValueError(
                f"only policies on numbers can be exported, this one sees {name!r} as {part}: flatten its observations "
                "(gymnasium.wrappers.FlattenObservation)."
            )
    inputs = {name: graph.value(name, *(part.shape or ())) for name, part in parts.items()}
    vectors = {name: graph.add("Flatten", name, axis=1) for name in parts}
    if shown:
        largest = np.atleast_1d(agent.constraint.largest_threshold)
        inputs[THRESHOLD] = graph.value(THRESHOLD, len(largest))
        vectors[THRESHOLD] = graph.add("Min", graph.add("Max", graph.add("Div", THRESHOLD, largest), 0.0), 1.0)
    order = list(seen.spaces) if isinstance(seen, spaces.Dict) else list(vectors)
    return list(inputs.values()), graph.add("Concat", *(vectors[name] for name in order), axis=1)


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper = helper

    def value(self, name: str, *shape: int) -> Any:
        """Batch of single-precision numbers."""
        return self._helper.make_tensor_value_info(name, self._helper.np_dtype_to_tensor_dtype(FLOAT), ["n", *shape])

    def add(self, kind: str, *inputs: str | ArrayLike, output: str | None = None, **attributes: Any) -> str:
        """Add a node; inputs that are not names are constants. Returns the name of its output."""
        names = [given if isinstance(given, str) else self.constant(np.asarray(given, FLOAT)) for given in inputs]
        name = output or f"value{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        kind = self._helper.np_dtype_to_tensor_dtype(array.dtype)
        self.constants.append(self._helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name


def _layer(graph: _Graph, layer: nn.Module, value: str) -> str:
    children = list(layer.children())
    if isinstance(layer, nn.Linear):
        weight, bias = (part.detach().cpu().numpy() for part in (layer.weight, layer.bias))
        return graph.add("Gemm", value, weight, bias, transB=1)
    if type(layer) in ACTIVATIONS:
        alpha = {nn.ELU: "alpha", nn.LeakyReLU: "negative_slope"}.get(type(layer))
        attributes: dict[str, Any] = {"alpha": float(getattr(layer, alpha))} if alpha else {}
        return graph.add(ACTIVATIONS[type(layer)], value, **attributes)
    if isinstance(layer, nn.Flatten | nn.Identity):
        return value
    if isinstance(layer, nn.Sequential) or type(layer).__name__ == "FlattenExtractor":
        for child in children:
            value = _layer(graph, child, value)
        return value
    parts = list(children[0].children()) if type(layer).__name__ == "CombinedExtractor" else []
    if parts and all(isinstance(part, nn.Flatten) for part in parts):
        return value  # of a Dict, flattened and joined
    known = ", ".join(["Linear", *(kind.__name__ for kind in ACTIVATIONS)])
    raise ValueError(f"the layer {layer} cannot be exported; policies of {known} can.")


def _action(graph: _Graph, space: ActionSpace, value: str, squashed: bool) -> Any:
    if not isinstance(space, spaces.Box) and not (isinstance(space, spaces.Discrete) and space.start == 0):
        raise ValueError(f"actions of {space} cannot be exported; a Box, or a Discrete that begins at 0, can.")
    if isinstance(space, spaces.Discrete):
        graph.add("ArgMax", value, output="action", axis=1, keepdims=0)
        return graph._helper.make_tensor_value_info(
            "action", graph._helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)), ["n"]
        )
    low, high = space.low.ravel(), space.high.ravel()
    if squashed:
        value = graph.add("Add", graph.add("Mul", graph.add("Add", value, 1.0), (high - low) / 2), low)
    value = graph.add("Min", graph.add("Max", value, low), high)
    shape = graph.constant(np.array([-1, *space.shape], dtype=np.int64))
    graph.add("Reshape", value, shape, output="action")
    return graph.value("action", *space.shape)

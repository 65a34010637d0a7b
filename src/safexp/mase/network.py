"""Trained policies as layers, and as networks in NumPy, which need no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import nn

from safexp.core.network import Activation, Layer, Network
from safexp.mase.mase import MASE

ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.Sigmoid: "sigmoid",
    nn.ELU: "elu",
    nn.LeakyReLU: "leaky_relu",
}


def network_of(agent: MASE) -> Network:
    """The deterministic policy of an agent, as it would act without its shield, for `Shield.export_c`.

    Raises:
        ValueError: if the policy is not a chain of layers on a vector.
    """
    space = agent.shield.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"only policies on vectors can be exported, this one sees {space}.")
    chain, squashed = layers_of(agent.learner.policy)
    layers: list[Layer] = []
    for part in _flat(chain):
        if isinstance(part, nn.Linear):
            weights, biases = (value.detach().cpu().numpy().astype(np.float64) for value in (part.weight, part.bias))
            layers.append(Layer(weights.T, biases))
        elif type(part) in ACTIVATIONS and layers:
            slope = float(getattr(part, "alpha", getattr(part, "negative_slope", 1.0)))
            layers[-1] = layers[-1]._replace(activation=ACTIVATIONS[type(part)], slope=slope)
        else:
            raise ValueError(f"the layer {part} cannot be exported; Linear and its usual activations can.")
    actions = agent.shield.action_space
    largest = np.atleast_1d(agent.constraint.largest_threshold) if agent.guard.show_threshold else ()
    if isinstance(actions, spaces.Discrete):
        return Network(layers, largest_thresholds=largest, start=int(actions.start))
    if not isinstance(actions, spaces.Box):
        raise ValueError(f"only policies with actions in a Box or Discrete can be exported, these are in {actions}.")
    return Network(layers, low=actions.low, high=actions.high, squashed=squashed, largest_thresholds=largest)


def _flat(chain: list[nn.Module]) -> Iterator[nn.Module]:
    """Layers without those that change nothing."""
    for part in chain:
        if isinstance(part, nn.Sequential) or type(part).__name__ == "FlattenExtractor":
            yield from _flat(list(part.children()))
        elif not isinstance(part, nn.Flatten | nn.Identity):
            yield part


def layers_of(policy: Any) -> tuple[list[nn.Module], bool]:
    """Layers from a policy's input to its action, and whether the output is squashed into [−1, 1]."""
    if getattr(policy, "squash_output", False) and not hasattr(policy, "actor"):
        raise ValueError(f"{type(policy).__name__} with squash_output=True cannot be exported; train it without.")
    if hasattr(policy, "mlp_extractor") and hasattr(policy, "action_net") and not hasattr(policy, "lstm_actor"):
        return [policy.pi_features_extractor, policy.mlp_extractor.policy_net, policy.action_net], False
    if hasattr(policy, "q_net"):
        return [policy.q_net.features_extractor, policy.q_net.q_net], False
    actor = getattr(policy, "actor", None)
    if actor is not None and hasattr(actor, "latent_pi"):
        return [actor.features_extractor, actor.latent_pi, actor.mu, nn.Tanh()], True
    if actor is not None:
        return [actor.features_extractor, actor.mu], True
    raise ValueError(f"{type(policy).__name__} cannot be exported: it is not a chain of layers from state to action.")

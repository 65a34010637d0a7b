"""Translation of the backup and of a policy: controllers whose coefficients are visible."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.network import layer_fields
from safexp.compiled.program import Program
from safexp.compiled.tables import padded
from safexp.core.linear import LinearFeedback
from safexp.core.network import Network


def translate_backup(program: Program) -> str:
    """Definition of the C function `backup_act`; empty if there is no backup."""
    controller, space = program.blueprint.backup, program.blueprint.observation_space
    if controller is None:
        return ""
    if not isinstance(controller, LinearFeedback | Network):
        raise NotExportableError(
            f"the backup {controller!r} cannot be exported to C: it is a Python function. Backup(safexp."
            "LinearFeedback(gains, ...), horizon) and Backup(safexp.Network(layers, ...), horizon) can."
        )
    if not isinstance(space, spaces.Box) or not isinstance(program.blueprint.action_space, spaces.Box):
        raise NotExportableError("a backup can be exported for observations and actions in a Box only.")
    size = int(np.prod(space.shape))
    if isinstance(controller, LinearFeedback):
        if controller.gains.shape != (program.actions, size):
            raise NotExportableError(
                f"the backup has gains {controller.gains.shape}, expected {(program.actions, size)}: one row for each "
                "entry of the action, one column for each entry of the observation."
            )
        return _feedback(program, controller)
    if controller.low is None or controller.largest_thresholds.size or len(controller.layers[0].weights) != size:
        raise NotExportableError(
            f"the backup's network must map {size} entries of an observation to an action in a box, without thresholds."
        )
    return _network(program, controller, size)


def translate_policy(program: Program, policy: Network) -> str:
    """Definition of the constants of `shield_policy`."""
    blueprint = program.blueprint
    space, actions = blueprint.observation_space, blueprint.action_space
    if not isinstance(space, spaces.Box):
        raise NotExportableError(f"a policy can be exported for observations in a Box, not for {space}.")
    if not isinstance(actions, spaces.Box | spaces.Discrete):
        raise NotExportableError(f"a policy can be exported for actions in a Box or Discrete, not for {actions}.")
    discrete = isinstance(actions, spaces.Discrete)
    inputs = int(np.prod(space.shape)) + len(policy.largest_thresholds)
    outputs = program.actions
    given = len(policy.layers[0].weights), len(policy.layers[-1].biases)
    if given != (inputs, outputs) or discrete != (policy.low is None):
        raise NotExportableError(
            f"the policy maps {given[0]} inputs to {given[1]} outputs, expected {(inputs, outputs)}."
        )
    program.use("network")
    layers = program.structs("dense_layer", layer_fields(program, policy.layers))
    widest = max(padded(len(layer.biases)) for layer in policy.layers)
    lines = {
        "POLICY_INPUTS": inputs,
        "POLICY_WIDEST": widest,
        "POLICY_LAYERS": len(policy.layers),
        "POLICY_LARGEST": program.tables.add("policy: largest thresholds", [*policy.largest_thresholds, 1.0]),
        "POLICY_SQUASHED": int(policy.squashed),
        "POLICY_DISCRETE": outputs if discrete else 0,
        "POLICY_MEMORY": program.reserve(inputs + 2 * widest),
        "policy_layers": layers,
    }
    return "\n".join(f"#define {name} {value}" for name, value in lines.items())


def _feedback(program: Program, controller: LinearFeedback) -> str:
    add = program.tables.add
    program.use("feedback")
    name = program.struct(
        "linear_feedback",
        inputs=controller.gains.shape[1],
        outputs=controller.gains.shape[0],
        gains=add("backup: gains", controller.gains.T),
        centre=add("backup: centre", controller.centre),
        target=add("backup: target", controller.target),
        low=add("backup: smallest action", controller.low),
        high=add("backup: largest action", controller.high),
    )
    return _function(f"    feedback_act(&{name}, s->model, observation, action);")


def _network(program: Program, controller: Network, size: int) -> str:
    assert controller.low is not None and controller.high is not None, "checked by the caller"
    program.use("network")
    layers = program.structs("dense_layer", layer_fields(program, controller.layers))
    widest = max(padded(len(layer.biases)) for layer in controller.layers)
    memory = program.reserve(2 * widest)
    low = program.tables.add("backup: smallest action", controller.low)
    high = program.tables.add("backup: largest action", controller.high)
    value = "low[i] + (y[i] + 1) * ((high[i] - low[i]) / 2)" if controller.squashed else "y[i]"
    return _function(
        f"    const real *low = s->model + {low}, *high = s->model + {high};",
        f"    real *one = s->memory + {memory};",
        f"    real *other = one + {widest};",
        f"    const real *y = network({layers}, {len(controller.layers)}, s->model, 1, observation, one, other);",
        f"    for (int i = 0; i < {program.actions}; i++)",
        f"        action[i] = smaller(larger({value}, low[i]), high[i]);",
    )


def _function(*lines: str) -> str:
    head = "static void backup_act(shield_t *s, const real *observation, real *action)"
    return "\n".join([head, "{", *lines, "}"])

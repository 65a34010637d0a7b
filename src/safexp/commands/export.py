"""`safexp export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from safexp.commands.working_directory import import_from_working_directory


def export(
    agent: Annotated[Path, tyro.conf.Positional],
    /,
    c: bool = False,
    onnx: bool = False,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    precision: Literal["double", "float"] = "double",
    policy: bool = False,
) -> int:
    """Export the shield of a trained agent to run without Python.

    A shield that looks ahead needs its backup controller, which the task of a run folder provides.

    Args:
        agent: a run folder, the agent.safexp in it, the file of a shield, or the name of an agent that comes with
            safexp.
        c: write C99 without dependencies, and a header beside it.
        onnx: write the certificate, upper bounds of the costs of an action, as ONNX.
        out: file to write; shield.c or shield.onnx by default.
        precision: precision of the C code.
        policy: export the policy with the shield, as a C function.
    """
    import_from_working_directory()
    from safexp.runs.exports import exported
    from safexp.shield.certificate_onnx import export_certificate

    if c == onnx:
        raise ValueError("give --c to export C code, or --onnx to export the certificate.")
    if onnx and (policy or precision != "double"):
        raise ValueError("--policy and --precision are for --c: leave them out.")
    found = exported(agent, with_policy=policy)
    if onnx:
        target = out or Path("shield.onnx")
        export_certificate(found.shield, target)
        print(f"certificate: {target}")
        return 0
    target = out or Path("shield.c")
    found.shield.export_c(target, precision=precision, policy=found.policy, braking=found.braking)
    print(f"shield: {target} and {target.with_suffix('.h')}")
    return 0

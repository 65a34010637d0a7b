"""`safexp export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro


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

    Args:
        agent: a run folder, the agent.safexp in it, or the file of a shield.
        c: write C99 without dependencies, and a header beside it.
        onnx: write the certificate, upper bounds of the costs of an action, as ONNX.
        out: file to write; shield.c or shield.onnx by default.
        precision: precision of the C code.
        policy: export the policy with the shield, as a C function.
    """
    from safexp.constraints.files import build_constraint
    from safexp.core import files
    from safexp.runs.folder import AGENT
    from safexp.shield.certificate_onnx import export_certificate
    from safexp.shield.shield import Shield

    if c == onnx:
        raise ValueError("give --c to export C code, or --onnx to export the certificate.")
    if onnx and (policy or precision != "double"):
        raise ValueError("--policy and --precision are for --c: leave them out.")
    file = agent / AGENT if agent.is_dir() else agent
    document, _ = files.read(file)
    constraint = build_constraint(document["constraint"]) if "constraint" in document else None
    shield = Shield.load(file, constraint=constraint)
    if onnx:
        target = out or Path("shield.onnx")
        export_certificate(shield, target)
        print(f"certificate: {target}")
        return 0
    network = None
    if policy:
        from safexp.mase.mase import MASE
        from safexp.mase.network import network_of

        network = network_of(MASE.load(file))
    target = out or Path("shield.c")
    shield.export_c(target, precision=precision, policy=network, braking=float(document.get("braking", 0.0)))
    print(f"shield: {target} and {target.with_suffix('.h')}")
    return 0

"""Export of a shield's certificate to ONNX."""

from __future__ import annotations

from pathlib import Path

from safexp.compiled.onnx import write_certificate
from safexp.shield.blueprints import blueprint_of
from safexp.shield.shield import Shield


def export_certificate(shield: Shield, path: str | Path) -> None:
    """Write upper bounds of the costs of an action as ONNX, for those who deploy that way; decide with them yourself.

    Inputs are `observation` (n, ds), `measured` (n, S) if signals are limited, and `action` (n, da), the output is
    `upper_bound` (n, K); all are double precision. An action is certified where every bound is at most its threshold.
    Inputs must be finite and within their spaces: the graph does not check that.

    Raises:
        MissingExtraError: if `onnx` is not installed.
        ValueError: if a part of the shield cannot be exported.
    """
    write_certificate(blueprint_of(shield), Path(path))

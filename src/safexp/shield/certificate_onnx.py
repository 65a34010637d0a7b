"""Export of a shield's certificate to ONNX."""

from __future__ import annotations

from pathlib import Path

from safexp.compiled.onnx import write_certificate
from safexp.shield.blueprints import blueprint_of
from safexp.shield.shield import Shield


def export_certificate(shield: Shield, path: str | Path) -> None:
    """Write the upper bounds of the costs of an action as an ONNX graph; the caller decides with them.

    Inputs are `observation` (n, ds), `measured` (n, S) if signals are limited, and `action` (n, da), the output is
    `upper_bound` (n, K); all are double precision. An action is certified where every bound is at most its threshold.
    Inputs must be finite and within their spaces: the graph does not check that.

    To deploy the whole decision use `Shield.export_c`.

    Args:
        shield: the shield.
        path: the file to write.

    Raises:
        MissingExtraError: if `onnx` is not installed.
        ValueError: if a part of the shield cannot be exported.

    Example:
        >>> box = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Known(safexp.Linear([0.5], [0.5])), box, box)
        >>> safexp.export_certificate(shield, "certificate.onnx")
        >>> Path("certificate.onnx").exists()
        True
    """
    write_certificate(blueprint_of(shield), Path(path))

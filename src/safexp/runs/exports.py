"""What is exported of a trained agent: its shield, and its policy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from safexp.constraints.files import build_constraint
from safexp.core import files
from safexp.core.network import Network
from safexp.runs.agents import is_complete, locate
from safexp.runs.folder import AGENT
from safexp.shield.shield import Shield


class Exported(NamedTuple):
    """Shield of an agent, the cost that it reserves for braking, and its policy if that is wanted."""

    shield: Shield
    braking: float
    policy: Network | None


def exported(path: Path, with_policy: bool) -> Exported:
    """Shield and policy of a run folder, of the agent in it, of a file alone, or of an agent by name.

    A shield that looks ahead is built from the settings of its run, because a file cannot hold its backup controller.

    Raises:
        ValueError: if it looks ahead and there is no run folder.
    """
    path = locate(path)
    file = path / AGENT if path.is_dir() else path
    document, _ = files.read(file)
    braking = float(document.get("braking", 0.0))
    if horizon := _horizon(document):
        if not is_complete(file):
            raise ValueError(
                f"{path} looks {horizon} steps ahead to a backup controller, which a file cannot hold: give its run "
                "folder, whose task has the controller, or export it in Python, "
                f"Shield.load(<file>, backup=Backup(<the same controller>, {horizon})).export_c(<file>)."
            )
        return _of_run(file, braking, with_policy)
    constraint = build_constraint(document["constraint"]) if "constraint" in document else None
    return Exported(Shield.load(file, constraint=constraint), braking, _policy_of(file) if with_policy else None)


def _policy_of(file: Path) -> Network:
    from safexp.mase.mase import MASE  # imported here because a shield alone needs no learner
    from safexp.mase.network import network_of

    return network_of(MASE.load(file))


def _of_run(file: Path, braking: float, with_policy: bool) -> Exported:
    from safexp.mase.mase import MASE
    from safexp.mase.network import network_of
    from safexp.runs.load import load

    agent = load(file)
    agent.envs.close()
    assert isinstance(agent, MASE), "only its agents have a file with a shield"
    return Exported(agent.shield, braking, network_of(agent) if with_policy else None)


def _horizon(document: files.Document) -> int:
    """Number of steps that a file's shield looks ahead."""
    shield = document.get("shield")
    return int(shield.get("horizon", 0)) if isinstance(shield, dict) else 0

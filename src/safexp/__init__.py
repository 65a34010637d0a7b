"""Train reinforcement-learning policies without breaking a safety constraint while they learn.

The names in `__all__` are the public surface; everything else is internal and may change.
"""

from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from safexp.backups.backup import Backup
from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Fallback, Recovery, Reset
from safexp.check.check_env import EnvCheck, check_env
from safexp.constraints import (
    AllOf,
    Budget,
    Constraint,
    Instantaneous,
    JointChance,
    Margin,
    Schedule,
    StateVisits,
    Within,
)
from safexp.core.costs import SignalError
from safexp.core.extras import MissingExtraError, needed_for
from safexp.core.files import CheckpointError
from safexp.core.linear import Linear, LinearFeedback
from safexp.core.network import Layer, Network
from safexp.core.obstacles import Obstacles
from safexp.doctor.examination import Examination
from safexp.doctor.examine import examine
from safexp.envs.six_values import adapt
from safexp.quantifiers import (
    GLM,
    IDENTITY,
    LOGISTIC,
    BestBackup,
    Calibrated,
    ChangeModel,
    DeepGP,
    ExactGP,
    FeatureRegression,
    Known,
    Link,
    PerCost,
    PlanarPath,
    Quantifier,
    Rollout,
    SparseGP,
    Transitions,
    Twin,
    Unknown,
)
from safexp.shield.answers import Answer
from safexp.shield.certificate_onnx import export_certificate
from safexp.shield.compiled_shield import CompiledShield
from safexp.shield.decisions import Decision, Decisions
from safexp.shield.logs import Log, read_log
from safexp.shield.policy import ShieldedPolicy
from safexp.shield.rehearsal import Rehearsal
from safexp.shield.shield import Shield
from safexp.tasks import register
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.moving import gate
from safexp.tasks.scene import Floor, Scene, Shape

if TYPE_CHECKING:
    from safexp.backups.learned_reset import LearnedReset
    from safexp.envs.early_termination import EarlyTermination
    from safexp.envs.guard import Guard
    from safexp.envs.recording import Outcome, Recorded, Recording, Taken
    from safexp.envs.refusals import NothingSafeError
    from safexp.envs.saute import Saute
    from safexp.envs.vector import as_vec_env
    from safexp.envs.wrapped import wrap
    from safexp.learners import CPO, TRPO, TRPOLagrangian
    from safexp.mase.agent import Agent
    from safexp.mase.baseline import Baseline
    from safexp.mase.mase import MASE
    from safexp.mase.onnx import export_onnx
    from safexp.report.frame import read_runs
    from safexp.report.video import picture_of
    from safexp.runs.config import RunConfig
    from safexp.runs.folder import RunFailedError, RunFolderError
    from safexp.runs.load import load
    from safexp.runs.play import Player
    from safexp.runs.run import run
    from safexp.runs.sweep import sweep
    from safexp.runs.variations import variations
    from safexp.tasks import safety_gymnasium
    from safexp.tasks.navigation import Layout, NavigationVectorEnv
    from safexp.tasks.navigation.suite import LAYOUTS

__version__ = "0.1.0"

__all__ = [
    "CPO",
    "GLM",
    "IDENTITY",
    "LAYOUTS",
    "LOGISTIC",
    "MASE",
    "TRPO",
    "Agent",
    "AllOf",
    "Answer",
    "Backup",
    "Baseline",
    "BestBackup",
    "Budget",
    "Calibrated",
    "ChangeModel",
    "CheckpointError",
    "CompiledShield",
    "Constraint",
    "Decision",
    "Decisions",
    "DeepGP",
    "EarlyTermination",
    "EnvCheck",
    "ExactGP",
    "Examination",
    "Fallback",
    "FeatureRegression",
    "Floor",
    "Guard",
    "Instantaneous",
    "JointChance",
    "Knowledge",
    "Known",
    "Layer",
    "Layout",
    "LearnedReset",
    "Linear",
    "LinearFeedback",
    "Link",
    "Log",
    "Margin",
    "MissingExtraError",
    "NavigationVectorEnv",
    "Network",
    "NothingSafeError",
    "Obstacles",
    "Outcome",
    "Penalty",
    "PerCost",
    "PlanarPath",
    "Player",
    "Quantifier",
    "Recorded",
    "Recording",
    "Recovery",
    "Rehearsal",
    "Reset",
    "Rollout",
    "RunConfig",
    "RunFailedError",
    "RunFolderError",
    "Saute",
    "Scene",
    "Schedule",
    "Shape",
    "Shield",
    "ShieldedPolicy",
    "SignalError",
    "SparseGP",
    "StateVisits",
    "TRPOLagrangian",
    "Taken",
    "Transitions",
    "Twin",
    "Unknown",
    "Within",
    "adapt",
    "as_vec_env",
    "check_env",
    "examine",
    "export_certificate",
    "export_onnx",
    "gate",
    "load",
    "picture_of",
    "read_log",
    "read_runs",
    "run",
    "safety_gymnasium",
    "sweep",
    "variations",
    "wrap",
]

_LATER = MappingProxyType(
    {
        path.replace(":", ".").rpartition(".")[2]: path
        for path in (
            "safexp.backups.learned_reset:LearnedReset",
            "safexp.envs.early_termination:EarlyTermination",
            "safexp.envs.guard:Guard",
            "safexp.envs.refusals:NothingSafeError",
            "safexp.envs.recording:Outcome",
            "safexp.envs.recording:Recorded",
            "safexp.envs.recording:Recording",
            "safexp.envs.recording:Taken",
            "safexp.envs.saute:Saute",
            "safexp.envs.vector:as_vec_env",
            "safexp.envs.wrapped:wrap",
            "safexp.learners:CPO",
            "safexp.learners:TRPO",
            "safexp.learners:TRPOLagrangian",
            "safexp.mase.agent:Agent",
            "safexp.mase.baseline:Baseline",
            "safexp.mase.mase:MASE",
            "safexp.mase.onnx:export_onnx",
            "safexp.report.frame:read_runs",
            "safexp.report.video:picture_of",
            "safexp.runs.config:RunConfig",
            "safexp.runs.folder:RunFailedError",
            "safexp.runs.folder:RunFolderError",
            "safexp.runs.load:load",
            "safexp.runs.play:Player",
            "safexp.runs.run:run",
            "safexp.runs.sweep:sweep",
            "safexp.runs.variations:variations",
            "safexp.tasks.safety_gymnasium",
            "safexp.tasks.navigation:Layout",
            "safexp.tasks.navigation:NavigationVectorEnv",
            "safexp.tasks.navigation.suite:LAYOUTS",
        )
    }
)
"""Public names that need an extra, and where they are: imported when they are asked for."""

register()


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'safexp' has no attribute {name!r}")
    with needed_for(f"safexp.{name}"):
        return resolve_name(_LATER[name])


def __dir__() -> list[str]:
    return __all__

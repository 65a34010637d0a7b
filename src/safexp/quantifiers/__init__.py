"""δ-uncertainty quantifiers: predictions of the cost whose interval holds with probability 1 − δ."""

from safexp.quantifiers.base import Quantifier, Transitions
from safexp.quantifiers.best_backup import BestBackup
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.change import ChangeModel
from safexp.quantifiers.features import FeatureRegression
from safexp.quantifiers.glm import GLM
from safexp.quantifiers.gp.deep import DeepGP
from safexp.quantifiers.gp.exact import ExactGP
from safexp.quantifiers.gp.sparse import SparseGP
from safexp.quantifiers.known import Known
from safexp.quantifiers.links import IDENTITY, LOGISTIC, Link
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.planar_path import PlanarPath
from safexp.quantifiers.rollout import Rollout
from safexp.quantifiers.twin import Twin
from safexp.quantifiers.unknown import Unknown

__all__ = [
    "GLM",
    "IDENTITY",
    "LOGISTIC",
    "BestBackup",
    "Calibrated",
    "ChangeModel",
    "DeepGP",
    "ExactGP",
    "FeatureRegression",
    "Known",
    "Link",
    "PerCost",
    "PlanarPath",
    "Quantifier",
    "Rollout",
    "SparseGP",
    "Transitions",
    "Twin",
    "Unknown",
]

"""Quantifiers fitted to a constraint: one per limit, with models of change for measured signals."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from safexp.constraints import AllOf, Constraint, Within
from safexp.core.encoding import ActionSpace, decode_observations, encoded_size
from safexp.core.obstacles import Obstacles
from safexp.core.signals import in_observation
from safexp.quantifiers.base import Quantifier, Transitions, inner_of
from safexp.quantifiers.best_backup import BestBackup
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.change import ChangeModel
from safexp.quantifiers.known import Known
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.planar_path import PlanarPath
from safexp.quantifiers.rollout import Rollout
from safexp.quantifiers.twin import Task, Twin
from safexp.quantifiers.unknown import Unknown
from safexp.shield.lookahead import BackupController, BackupOption, course_of
from safexp.shield.transitions import parts_of

NEGLIGIBLE = 0.01
"""Share of the logged states in which the backup's action may be beyond the log without a warning."""

LITTLE = 0.5
"""Share of certified logged actions below which there is a warning: the backup would drive most of the time."""

CHECKS = (
    "an entry of the state that jumps or lacks its speed, a backup that is unlike the log or does not come to rest "
    "within the limits, and too few episodes"
)
"""What to check where a certificate that looks ahead certifies little."""

log = logging.getLogger("safexp")


class _Setting(NamedTuple):
    """Spaces, constraint and backup that a certificate is built for."""

    observations: spaces.Space[Any]
    actions: ActionSpace | None
    backup: BackupOption | None


def certificate_for(
    constraint: Constraint,
    quantifier: Quantifier,
    observation_space: spaces.Space[Any],
    action_space: ActionSpace | None = None,
    backup: BackupController | None = None,
) -> Quantifier:
    """Quantifier that bounds all costs of a constraint: one per part, either given or copied.

    Where a backup has several options, it is copied for each of them.

    Raises:
        ValueError: if it cannot bound the costs of the constraint.
    """
    options = () if backup is None or not backup.horizon else tuple(backup.options)
    if len(options) > 1:
        if not quantifier.looks_ahead:
            raise ValueError(
                f"{type(quantifier).__name__} bounds an action and one backup, which has {len(options)} options: give "
                "BestBackup(...) of one certificate for each."
            )
        own = quantifier.parts if isinstance(quantifier, BestBackup) else BestBackup.of(quantifier, len(options)).parts
        if len(own) != len(options):
            raise ValueError(f"{len(own)} certificates for {len(options)} options of the backup: give one for each.")
        return BestBackup(
            *(
                _certificate(constraint, part, _Setting(observation_space, action_space, option))
                for part, option in zip(own, options, strict=True)
            )
        )
    option = options[0] if options else None
    return _certificate(constraint, quantifier, _Setting(observation_space, action_space, option))


def _certificate(constraint: Constraint, quantifier: Quantifier, setting: _Setting) -> Quantifier:
    """Quantifier for a constraint and one option of a backup."""
    parts, backup = parts_of(constraint), setting.backup
    if isinstance(constraint, AllOf) and not isinstance(quantifier, PerCost):
        quantifier = PerCost.of(quantifier, len(parts))
    given = quantifier.parts if isinstance(quantifier, PerCost) else (quantifier,)
    if isinstance(quantifier, PerCost) and len(given) == len(parts):
        found = [_for_part(part, own, setting) for part, own in zip(parts, given, strict=True)]
        quantifier = quantifier if all(a is b for a, b in zip(found, given, strict=True)) else PerCost(*found)
    elif len(parts) == 1:
        quantifier = _for_part(constraint, quantifier, setting)
    if backup is not None:
        _check_looks_ahead(quantifier, backup.horizon)
    if quantifier.num_costs != constraint.num_costs:
        raise ValueError(
            f"quantifiers for {quantifier.num_costs} costs, but {type(constraint).__name__} limits "
            f"{constraint.num_costs}: give one for each part of AllOf, or one that is copied for each."
        )
    return quantifier


def warn_of_backup(quantifier: Quantifier, data: Transitions) -> None:
    """Log a warning where the backup would act as the log never shows."""
    while isinstance(quantifier, Calibrated | BestBackup):
        quantifier = inner_of(quantifier)[0]
    if isinstance(quantifier, Rollout) and (share := quantifier.unseen_backup(data)) > NEGLIGIBLE:
        log.warning(
            "in %.0f%% of the logged states the backup's action is beyond all that the log shows, so nothing can be "
            "certified there: let the backup drive now and then while logging",
            100 * share,
        )


def warn_of_refusals(quantifier: Quantifier, share: float) -> None:
    """Log a warning where a certificate that looks ahead certifies little: a `share` of the logged actions."""
    if share >= LITTLE:
        return
    scales = scales_of(quantifier)
    log.warning(
        "only %.0f%% of the logged actions are certified%s, so the backup would drive most of the time: check for %s; "
        "safexp.examine(log, constraint=..., backup=...) tells more",
        100 * share,
        f", with widths scaled by {max(scales):.3g}" if scales else "",
        CHECKS,
    )


def scales_of(quantifier: Quantifier) -> list[float]:
    """Scales of all calibrated quantifiers in this one."""
    own = [quantifier.scale] if isinstance(quantifier, Calibrated) else []
    return [*own, *(scale for part in inner_of(quantifier) for scale in scales_of(part))]


def _for_part(constraint: Constraint, quantifier: Quantifier, setting: _Setting) -> Quantifier:
    """Quantifier for the costs of one simple constraint."""
    if isinstance(quantifier, Calibrated):
        inner = _for_part(constraint, quantifier.quantifier, setting)
        return quantifier if inner is quantifier.quantifier else Calibrated(inner, **quantifier.settings())
    if isinstance(quantifier, PlanarPath):
        return quantifier if quantifier.bound else _planar(constraint, quantifier, setting)
    if isinstance(quantifier, Twin):
        return quantifier if quantifier.bound else _twin(constraint, quantifier, setting)
    if not isinstance(constraint, Within):
        if quantifier.looks_ahead:
            raise ValueError(
                f"Rollout answers for limits on signals, Within(...), not for {type(constraint).__name__}."
            )
        return quantifier
    if isinstance(quantifier, Rollout) and quantifier.bound:
        return quantifier
    if isinstance(quantifier, Rollout):
        if setting.backup is None or setting.actions is None:
            raise ValueError("Rollout looks ahead to a backup: give backup=Backup(controller, horizon).")
        course = course_of(setting.backup, constraint, setting.observations, setting.actions)
        return quantifier.bound_to(constraint.sides, course)
    if isinstance(quantifier, ChangeModel):
        return (
            quantifier
            if quantifier.sides is not None
            else quantifier.bound_to(constraint.sides, _inputs(constraint, setting.observations))
        )
    if isinstance(quantifier, Known) or quantifier.is_regression:
        return ChangeModel(quantifier).bound_to(constraint.sides, _inputs(constraint, setting.observations))
    if isinstance(quantifier, Unknown) and constraint.num_costs > 1:
        return PerCost.of(quantifier, constraint.num_costs)
    return quantifier


def _planar(constraint: Constraint, quantifier: PlanarPath, setting: _Setting) -> PlanarPath:
    """Certificate of a robot's path, for the obstacles of a constraint."""
    among: Obstacles | None = getattr(constraint, "among", None)
    if among is None:
        raise ValueError(
            f"PlanarPath looks for obstacles, and {type(constraint).__name__} names none: give Budget(limit, "
            "among=Obstacles(count, radius)) or Instantaneous(...) likewise."
        )
    if setting.backup is None or setting.actions is None:
        raise ValueError("PlanarPath looks ahead to a backup: give backup=Backup(controller, horizon).")
    course = course_of(setting.backup, constraint, setting.observations, setting.actions)
    return quantifier.bound_to(among, course, encoded_size(setting.observations), not constraint.on_every_step)


def _twin(constraint: Constraint, quantifier: Twin, setting: _Setting) -> Twin:
    """Certificate by simulation, for the limits or the costs of a constraint."""
    if setting.backup is None or setting.actions is None:
        raise ValueError("Twin looks ahead to a backup: give backup=Backup(controller, horizon).")
    size = encoded_size(setting.observations)
    if isinstance(constraint, Within):
        example = decode_observations(setting.observations, np.zeros((1, size)))
        if missing := [source for source in constraint.sources if not in_observation(source, example)]:
            raise ValueError(
                f"Twin simulates observations, and the signal {missing[0]!r} is not in them: give Within(...) a "
                "function of the observation, or use Rollout(), which also predicts signals of the info."
            )
    course = course_of(setting.backup, constraint, setting.observations, setting.actions)
    sides = constraint.sides if isinstance(constraint, Within) else None
    return quantifier.bound_to(sides, Task(course, size, not constraint.on_every_step))


def _inputs(constraint: Within, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Default inputs of a model: indices into the state (the observation's entries, then the signals).

    All of the observation, and those signals that are not themselves one of its entries.
    """
    size = encoded_size(space)
    derived = [k for k, source in enumerate(constraint.sources) if not _is_entry(source, space)]
    return (*range(size), *(size + k for k in derived))


def _is_entry(source: Any, space: spaces.Space[Any]) -> bool:
    if isinstance(source, str):
        return isinstance(space, spaces.Dict) and source in space.spaces
    return isinstance(source, int | np.integer)


def _check_looks_ahead(quantifier: Quantifier, horizon: int) -> None:
    """Raise `ValueError` if a learned quantifier bounds one step only."""
    if quantifier.is_regression:
        raise ValueError(
            f"{type(quantifier).__name__} bounds one step, and the backup drives for {horizon}: use Rollout(), or "
            "Known(<bound on an action and then the backup>). A controller that only takes over where nothing is "
            "certified for the next step is given to ShieldedPolicy(..., backup=controller) and to rehearse."
        )
    for part in inner_of(quantifier):
        _check_looks_ahead(part, horizon)

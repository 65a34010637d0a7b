"""MuJoCo models of a robot among objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import mujoco

from safexp.tasks.navigation.things import Group, Kind

SHAPES: Final = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
}
FOUND: Final = 1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND)
WELD_STIFFNESS: Final = (0.02, 1.5)
"""Time constant in seconds and damping ratio of the weld that drives an object."""

STILL: Final = 1e-8
"""Speed in metres and radians per second below which an object is at rest; a step moves it by less than a nanometre."""


def body_name(kind: Kind, index: int) -> str:
    """Name of an object's body in the model."""
    return f"{kind.name} {index}"


def build(robot: str, groups: Sequence[Group], sleep: bool) -> mujoco.MjModel:
    """Build a robot of `mjcf/` on a floor among `groups` of objects.

    The order of bodies is Safety-Gymnasium's, so that MuJoCo finds contacts in the same order and solves them to the
    same last digit: robot, movable objects, the bodies that drive some of them, fixed objects. For every object of a
    watched group a sensor at the end counts its contacts with the robot. With `sleep` MuJoCo does not simulate objects
    at rest.
    """
    spec = mujoco.MjSpec.from_file(str(Path(__file__).parent / "mjcf" / f"{robot.lower()}.xml"))
    for kind, index in _each(groups, "free", "driven"):
        _add_body(spec, kind, index).add_freejoint()
    for kind, index in _each(groups, "driven"):
        name = body_name(kind, index)
        spec.worldbody.add_body(name=f"{name} drive", mocap=True)
        weld = spec.add_equality(
            type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1=f"{name} drive", name2=name
        )
        weld.solref = WELD_STIFFNESS
        weld.data = [0.0] * 10 + [1.0, 1.0]  # no offset, a pose for the layout to fill in, torques and forces in full
    for kind, index in _each(groups, "fixed"):
        _add_body(spec, kind, index)
    for group in groups:
        for index in range(group.count if group.watched else 0):
            spec.add_sensor(
                name=body_name(group.kind, index),
                type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=mujoco.mjtObj.mjOBJ_XBODY,
                objname="robot",
                reftype=mujoco.mjtObj.mjOBJ_BODY,
                refname=body_name(group.kind, index),
                intprm=[FOUND, 0, 1],
            )
    if not _each(groups, "free", "driven"):
        # Everything that moves is one island: searching for more would take a tenth of the time and find none.
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    if sleep:
        spec.option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
        spec.option.sleep_tolerance = STILL
    return spec.compile()


def _each(groups: Sequence[Group], *motions: str) -> list[tuple[Kind, int]]:
    return [(group.kind, k) for group in groups if group.kind.motion in motions for k in range(group.count)]


def _add_body(spec: mujoco.MjSpec, kind: Kind, index: int) -> mujoco.MjsBody:
    body = spec.worldbody.add_body(name=body_name(kind, index), pos=[0.0, 0.0, kind.height])
    for geom in kind.geoms:
        body.add_geom(type=SHAPES[geom.shape], size=geom.size, density=geom.density, pos=geom.place, condim=6)
    return body

"""Drawing of the navigation tasks from above with Pillow, without a window or a graphics card."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from safexp.core.arrays import Array
from safexp.tasks.scene import Place, Scene, Way

Colour = tuple[int, int, int] | tuple[int, int, int, int]

FINE: Final = 3
"""Factor by which pictures are drawn larger and then reduced, for smooth edges."""
BAND_PIECES: Final = 12
"""Number of discs by which a section of a band is drawn."""
BORDER: Final = 0.35
"""Metres of floor shown around the square in which objects are placed."""

FLOOR: Final = (247, 247, 244)
GRID: Final = (232, 232, 227)
SQUARE: Final = (205, 206, 200)
HAZARD: Final = (222, 86, 66, 120)
HAZARD_EDGE: Final = (189, 55, 38)
TARGET: Final = (70, 160, 96, 110)
TARGET_EDGE: Final = (38, 118, 64)
FILL: Final[dict[str, Colour]] = {
    "vases": (45, 165, 178, 200),
    "pillars": (120, 120, 190, 255),
    "gremlins": (150, 70, 170, 220),
    "push_box": (236, 190, 60, 230),
    "buttons": (240, 150, 60, 255),
    "boundary": (222, 86, 66, 70),
}
EDGE: Final[dict[str, Colour]] = {
    "vases": (22, 112, 122),
    "pillars": (70, 70, 140),
    "gremlins": (95, 35, 115),
    "push_box": (150, 110, 20),
    "buttons": (170, 90, 20),
    "boundary": (189, 55, 38),
}
BODY: Final = (38, 70, 120)
BODY_EDGE: Final = (20, 40, 75)
NOSE: Final = (250, 196, 62)
ALARM: Final = (189, 55, 38)
WHEEL: Final = (35, 35, 38)
AHEAD: Final = (122, 82, 168)
AHEAD_SHARE: Final = 0.35
"""Colour of a predicted path, and the share of it in the colour of its width."""


def draw(scene: Scene, size: int = 400) -> NDArray[np.uint8]:
    """Draw the scene as a picture (size, size, 3), north up; the robot is red in a hazard or while it incurs a cost."""
    floor = scene.floor
    goal, hazards = np.array(floor.goal), np.array(floor.hazards).reshape(-1, 2)
    canvas = _Canvas(scene.centre, scene.reach or floor.extent + BORDER, size * FINE)
    low, high = canvas.centre - canvas.reach, canvas.centre + canvas.reach
    for line in np.arange(np.ceil(low[0] / 0.5), np.floor(high[0] / 0.5) + 1) * 0.5:
        canvas.line(np.array([[line, low[1]], [line, high[1]]]), GRID, 0.006)
    for line in np.arange(np.ceil(low[1] / 0.5), np.floor(high[1] / 0.5) + 1) * 0.5:
        canvas.line(np.array([[low[0], line], [high[0], line]]), GRID, 0.006)
    corners = floor.extent * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    canvas.line(corners, SQUARE, 0.014)
    canvas.disc(goal, floor.goal_radius, TARGET, TARGET_EDGE)
    canvas.disc(goal, min(floor.goal_radius / 3, 0.1), TARGET, TARGET_EDGE)
    for hazard in hazards:
        canvas.disc(hazard, floor.hazard_radius, HAZARD, HAZARD_EDGE)
    inside = bool((np.linalg.norm(hazards - scene.position, axis=1) < floor.hazard_radius).any())
    for shape in scene.shapes:
        canvas.polygon(shape.corners, FILL[shape.kind], EDGE[shape.kind])
    _draw_trail(canvas, scene.trail)
    _draw_robot(canvas, scene, ALARM if inside or scene.alarm else BODY)
    if scene.ahead is not None:
        _draw_ahead(canvas, scene.ahead)
    return canvas.picture()


def _draw_trail(canvas: _Canvas, trail: Array) -> None:
    """Draw the path, older parts paler, in at most 60 pieces."""
    edges = np.unique(np.linspace(0, len(trail) - 1, 61).astype(int))
    for piece, (begin, end) in enumerate(pairwise(edges)):
        age = 1 - (piece + 1) / len(edges)
        red, green, blue = (int(c + (235 - c) * 0.75 * age) for c in BODY)
        canvas.line(trail[begin : end + 1], (red, green, blue), 0.028)


def _draw_ahead(canvas: _Canvas, way: Way) -> None:
    """Draw a predicted path within its width."""
    canvas.band(way.places, way.widths, AHEAD, AHEAD_SHARE)
    canvas.line(way.places, AHEAD, 0.014)


def _draw_robot(canvas: _Canvas, scene: Scene, body: Colour) -> None:
    """Draw the robot's outline: the Point a disc with a nose, the Car a chassis with two wheels and a castor."""
    forward = np.array([np.cos(scene.heading), np.sin(scene.heading)])
    axes = np.stack([forward, [-forward[1], forward[0]]])

    def box(centre: tuple[float, float], length: float, width: float) -> Array:
        corners = 0.5 * np.array([[length, width], [length, -width], [-length, -width], [-length, width]])
        return scene.position + (corners + centre) @ axes

    if scene.robot == "Point":
        canvas.polygon(box((0.1, 0.0), 0.1, 0.1), NOSE, BODY_EDGE)
        canvas.disc(scene.position, 0.1, body, BODY_EDGE)
        return
    for side in (-0.13, 0.13):
        canvas.polygon(box((-0.1, side), 0.1, 0.05), WHEEL, WHEEL)
    canvas.polygon(box((-0.125, 0.0), 0.05, 0.02), body, BODY_EDGE)
    canvas.polygon(box((-0.15, 0.0), 0.02, 0.2), body, BODY_EDGE)
    canvas.disc(scene.position + 0.1 * forward, 0.05, WHEEL, BODY_EDGE)
    canvas.polygon(box((0.135, 0.0), 0.08, 0.1), NOSE, BODY_EDGE)
    canvas.polygon(box((0.0, 0.0), 0.2, 0.2), body, BODY_EDGE)


class _Canvas:
    """A square of floor of half-width `reach` metres on `pixels` × `pixels`; colours may be translucent."""

    def __init__(self, centre: Place, reach: float, pixels: int) -> None:
        self.centre: Array = np.array(centre)
        self.reach = reach
        self._scale = pixels / (2 * reach)
        self._image = Image.new("RGB", (pixels, pixels), FLOOR)
        self._pen = ImageDraw.Draw(self._image, "RGBA")

    def line(self, points: Array, colour: Colour, width: float) -> None:
        self._pen.line(self._pixels(points), colour, max(1, round(width * self._scale)), joint="curve")

    def disc(self, centre: Array, radius: float, colour: Colour, edge: Colour) -> None:
        corners = self._pixels(
            np.array([[centre[0] - radius, centre[1] + radius], [centre[0] + radius, centre[1] - radius]])
        )
        self._pen.ellipse(corners, colour, edge, width=max(1, round(0.012 * self._scale)))

    def polygon(self, corners: Array, colour: Colour, edge: Colour) -> None:
        self._pen.polygon(self._pixels(corners), colour, edge, width=max(1, round(0.012 * self._scale)))

    def band(self, points: Array, widths: Array, colour: tuple[int, int, int], share: float) -> None:
        """A line through points (n, 2) with these half-widths (n,), mixed into the picture by a share."""
        mask = Image.new("L", self._image.size, 0)
        pen, level = ImageDraw.Draw(mask), round(255 * share)
        for (begin, end), (thin, thick) in zip(pairwise(points), pairwise(widths), strict=True):
            for part in np.linspace(0.0, 1.0, BAND_PIECES):
                radius = thin + part * (thick - thin)
                centre = begin + part * (end - begin)
                corners = centre + radius * np.array([[-1.0, 1.0], [1.0, -1.0]])
                pen.ellipse(self._pixels(corners), level)
        self._image.paste(colour, mask=mask)

    def picture(self) -> NDArray[np.uint8]:
        return np.asarray(self._image.reduce(FINE), dtype=np.uint8)

    def _pixels(self, points: Array) -> list[tuple[float, float]]:
        offsets = (points - self.centre).tolist()
        return [((x + self.reach) * self._scale, (self.reach - y) * self._scale) for x, y in offsets]

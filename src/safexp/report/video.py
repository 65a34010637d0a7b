"""Video of a trained agent: the map, the remaining budget, and the actions that the shield certifies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from safexp.constraints import Constraint
from safexp.core.extras import needed_for
from safexp.report.gauge import Gauge, gauge
from safexp.report.signal_chart import draw_signals
from safexp.runs.play import Choices, Moment, Picture
from safexp.tasks.drawing import AHEAD, ALARM, BODY, FLOOR, GRID, NOSE, TARGET_EDGE, draw
from safexp.tasks.scene import Scene, Way

SIZE = 480
"""Height of a picture, and both sides of its map; a multiple of 16, as video codecs require."""
PANEL = 288
FINE = 3
"""Factor by which the inset is drawn larger and then reduced, for smooth edges."""

EDGE = 6
"""Room around the inset's cells for half a dot, and a dot's radius."""

INK, FAINT, PAPER = (40, 42, 46), (120, 122, 126), (255, 255, 255)
SAFE, UNSAFE = (190, 224, 198), (240, 200, 192)
AMBER = (214, 140, 20)


def film(moments: Iterable[Moment], constraint: Constraint, title: str, fps: int) -> Iterator[Picture]:
    """A picture of every moment; the last one of an episode stays for a second."""
    for moment in moments:
        picture = picture_of(moment, constraint, title)
        for _ in range(1 if moment.outcome is None else fps):
            yield picture


def picture_of(moment: Moment, constraint: Constraint, title: str) -> Picture:
    """Draw one moment of a played episode, as an RGB picture (480, 768, 3).

    Args:
        moment: a moment of `Player.play`, of a player that was loaded with `filmed=True`.
        constraint: its constraint, for the gauge of the threshold.
        title: text above the gauge.

    Example:
        >>> options = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
        >>> config = safexp.RunConfig(steps=64, num_envs=4, learner_options=options, out=Path("runs/first"))
        >>> player = safexp.Player.load(safexp.run(config), filmed=True)
        >>> moment = next(player.play(1))
        >>> safexp.picture_of(moment, player.agent.envs.constraint, "first").shape
        (480, 768, 3)
    """
    image = Image.new("RGB", (SIZE + PANEL, SIZE), PAPER)
    image.paste(_map(moment.view), (0, 0))
    pen, left = ImageDraw.Draw(image), SIZE + 20
    for row, line in enumerate(title.splitlines()):
        pen.text((left, 14 + 18 * row), line, FAINT, _font(13))
    pen.text((left, 58), f"episode {moment.episode + 1}", INK, _font(18))
    pen.text((SIZE + PANEL - 20, 58), f"step {moment.step}", INK, _font(18), anchor="ra")
    pen.text((left, 84), f"return {moment.total_return:.2f}", INK, _font(15))
    pen.text((SIZE + PANEL - 20, 84), f"cost {moment.total_cost:.4g}", INK, _font(15), anchor="ra")
    _draw_gauge(pen, gauge(constraint, moment.threshold, moment.signal), left, 118, PANEL - 40)
    inset = _inset(moment)
    if inset is not None:
        image.paste(inset, (left + (PANEL - 40 - inset.width) // 2, 168))
        _draw_legend(pen, moment, left, 168 + inset.height + 2)
    if isinstance(moment.forecast, Way):
        pen.text((left, SIZE - 54), "violet: predicted way with the backup", FAINT, _font(13))
    elif moment.forecast is not None:
        top = 168 if inset is None else 168 + inset.height + 46
        draw_signals(pen, moment.forecast, (left, top, SIZE + PANEL - 20, SIZE - 48))
    word, colour = status(moment)
    pen.text((left, SIZE - 34), word, colour, _font(17))
    return np.asarray(image, dtype=np.uint8)


def status(moment: Moment) -> tuple[str, tuple[int, int, int]]:
    """Short status text of a moment, and its colour."""
    if moment.takeover:
        return "the backup drives", AHEAD
    if moment.outcome is None:
        if moment.intervened:
            return "the shield intervenes", AMBER
        return "" if moment.forecast is None else "the policy drives", INK
    if moment.outcome.violated:
        return "the constraint is broken", ALARM
    if moment.outcome.stopped:
        return "stopped: nothing safe is left", AMBER
    return "the end: the constraint held", TARGET_EDGE


def writer_for(path: Path) -> Callable[[Iterable[Picture], int], None]:
    """Function that writes frames to this file: a GIF, or an MP4, which needs the extra `video`."""
    match path.suffix.lower():
        case ".gif":
            return lambda pictures, fps: _write_gif(path, pictures, fps)
        case ".mp4":
            with needed_for(f"writing {path}", instead=", or write a .gif"):
                import imageio_ffmpeg
            return lambda pictures, fps: _write_mp4(path, pictures, fps, imageio_ffmpeg)
    raise ValueError(f"{path} must end in .mp4 or .gif.")


def _write_mp4(path: Path, pictures: Iterable[Picture], fps: int, ffmpeg: ModuleType) -> None:
    part = path.with_name(f".{path.name}.part.mp4")
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = ffmpeg.write_frames(str(part), (SIZE + PANEL, SIZE), fps=fps, quality=7, ffmpeg_log_level="error")
    try:
        sink.send(None)
        for picture in pictures:
            sink.send(np.ascontiguousarray(picture))
        sink.close()
        part.replace(path)
    finally:
        sink.close()
        part.unlink(missing_ok=True)


def _write_gif(path: Path, pictures: Iterable[Picture], fps: int) -> None:
    part = path.with_name(f".{path.name}.part.gif")
    path.parent.mkdir(parents=True, exist_ok=True)
    images = (Image.fromarray(picture).quantize(128, Image.Quantize.FASTOCTREE) for picture in pictures)
    pause = max(round(100 / fps), 2) * 10  # GIFs count in hundredths of a second, and players ignore a delay of one
    try:
        next(images).save(part, save_all=True, append_images=images, duration=pause, loop=0)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _map(view: Scene | Picture | None) -> Image.Image:
    if isinstance(view, Scene):
        return Image.fromarray(draw(view, SIZE))
    image = Image.new("RGB", (SIZE, SIZE), FLOOR)
    if view is not None:
        shown = Image.fromarray(view).convert("RGB")
        shown.thumbnail((SIZE, SIZE))
        image.paste(shown, ((SIZE - shown.width) // 2, (SIZE - shown.height) // 2))
    return image


def _draw_gauge(pen: ImageDraw.ImageDraw, shown: Gauge, left: int, top: int, width: int) -> None:
    pen.text((left, top), shown.label, INK, _font(15))
    pen.rounded_rectangle((left, top + 24, left + width, top + 38), 4, GRID)
    colour = {"good": TARGET_EDGE, "low": AMBER, "bad": ALARM}[shown.state]
    if shown.level > 0:
        pen.rounded_rectangle((left, top + 24, left + max(width * shown.level, 6), top + 38), 4, colour)
    if shown.mark is not None:
        at = left + width * shown.mark
        pen.line((at, top + 20, at, top + 42), INK, 2)


def _inset(moment: Moment) -> Image.Image | None:
    """Inset of the actions: green if certified, red if not; the proposed one, and the executed one."""
    choices = moment.choices
    if choices is None:
        return None
    plane = choices.safe.ndim == 2
    width, height = (208, 208) if plane else (PANEL - 48, 40)
    image = Image.new("RGB", ((width + 2 * EDGE) * FINE, (height + 2 * EDGE) * FINE), PAPER)
    pen = ImageDraw.Draw(image)
    columns, rows = choices.safe.shape if plane else (len(choices.safe), 1)
    cell = (width * FINE / columns, height * FINE / rows)
    for (i, j), safe in np.ndenumerate(choices.safe.reshape(columns, rows)):
        x, y = EDGE * FINE + i * cell[0], EDGE * FINE + (rows - 1 - j) * cell[1]
        pen.rectangle((x + 1, y + 1, x + cell[0] - 1, y + cell[1] - 1), SAFE if safe else UNSAFE)
    executed, radius = _place(choices, moment.executed, cell), EDGE * FINE
    if moment.intervened:
        proposed = _place(choices, moment.proposed, cell)
        pen.line((*proposed, *executed), FAINT, 2 * FINE)
        pen.ellipse(_around(proposed, radius), PAPER, ALARM, 2 * FINE)
    pen.ellipse(_around(executed, radius), NOSE if moment.intervened else BODY, INK, FINE)
    return image.reduce(FINE)


def _place(choices: Choices, action: Any, cell: tuple[float, float]) -> tuple[float, float]:
    """Position of an action in the inset: the centre of a cell is the action that was evaluated."""
    last = np.array(choices.safe.shape) - 1
    at = (np.ravel(action) - choices.low) / np.maximum(choices.high - choices.low, 1e-12) * last
    up = 0.0 if len(at) == 1 else float(last[1] - at[1])
    return EDGE * FINE + (float(at[0]) + 0.5) * cell[0], EDGE * FINE + (up + 0.5) * cell[1]


def _draw_legend(pen: ImageDraw.ImageDraw, moment: Moment, left: int, top: int) -> None:
    plane = moment.choices is not None and moment.choices.safe.ndim == 2
    axes = ": 1st across, 2nd up" if plane else ""
    pen.text((left, top), f"actions{axes}; green: safe", FAINT, _font(13))
    if moment.intervened:
        pen.ellipse(_around((left + 6, top + 27), 5), PAPER, ALARM, 2)
        pen.text((left + 16, top + 19), "proposed", FAINT, _font(13))
        pen.ellipse(_around((left + 102, top + 27), 5), NOSE, INK)
        pen.text((left + 112, top + 19), "executed instead", FAINT, _font(13))


def _around(centre: tuple[float, float], radius: float) -> tuple[float, float, float, float]:
    x, y = centre
    return x - radius, y - radius, x + radius, y + radius


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)

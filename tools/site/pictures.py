"""Draw the pictures of the documentation, in light and dark: `python tools/site/pictures.py`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from gymnasium import spaces
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

import safexp
from safexp.core.arrays import Array

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
WALL, HORIZON, SPAN = 0.93, 20, 0.1


class Look(NamedTuple):
    """Colours of a picture."""

    ink: str
    faint: str
    fill: str
    safe: str
    unsafe: str
    backup: str


LOOKS = {
    "light": Look("#1f2933", "#9aa5b1", "#e6f2f1", "#00796b", "#c62828", "#b26a00"),
    "dark": Look("#e4e7eb", "#7b8794", "#17403d", "#4db6ac", "#ef5350", "#ffb74d"),
}

SUBJECTS = {
    "cli": "the command line",
    "commands": "one module for each command",
    "studies": "the paper's and our own studies; benchmarks",
    "report": "pages, figures, tables, videos",
    "audit": "bounds on the risk of a trained policy",
    "runs": "settings → run folder → resume → sweep",
    "mase": "Algorithm 1 around any learner",
    "learners": "algorithms; environments; are they sound?",
    "envs": "the guard, recordings, adapters",
    "backups": "who drives when the learner may not; logs examined",
    "shield": "which actions are safe; what really happened",
    "compiled": "shields as C and ONNX",
    "quantifiers": "mean ± width from data; thresholds",
    "core": "arrays, spaces, signals, files",
}
"""Subject of each layer, by its first folder."""


def main(out: Path = FIGURES) -> int:
    """Write every picture in both looks."""
    pictures: dict[str, Callable[[Look], Figure]] = {
        "architecture": architecture,
        "step": step,
        "certificate": certificate,
        "backups": backups,
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in pictures.items():
        for shade, look in LOOKS.items():
            settings: dict[str, Any] = {
                "svg.hashsalt": "safexp",
                "font.size": 10,
                "text.color": look.ink,
                "axes.edgecolor": look.faint,
                "axes.labelcolor": look.ink,
                "xtick.color": look.faint,
                "ytick.color": look.faint,
            }
            with mpl.rc_context(settings):
                draw(look).savefig(out / f"{name}-{shade}.svg", transparent=True, metadata={"Date": None})
    return 0


def architecture(look: Look) -> Figure:
    """Folders in the layers that `make lint` checks; imports point down."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [layer.split(" | ") for layer in contract["layers"]]
    figure, axes = blank(8.0, 5.4, (-0.2, 10), (0, len(layers)))
    for level, folders in enumerate(reversed(layers)):
        box(axes, look, (0.3, level + 0.12), (4.2, 0.76), "   ".join(folders), bold=True)
        axes.text(4.75, level + 0.5, SUBJECTS[folders[0]], va="center")
    axes.annotate("", (0.08, 0.2), (0.08, len(layers) - 0.2), arrowprops={"arrowstyle": "->", "color": look.faint})
    axes.text(-0.1, len(layers) / 2, "imports", rotation=90, va="center", ha="center", color=look.faint)
    return figure


def step(look: Look) -> Figure:
    """A step through the shield, from the proposal to the next threshold."""
    figure, axes = blank(8.6, 3.6, (0, 12.4), (0, 5.6))
    box(axes, look, (0.1, 3.2), (1.9, 1.1), "learner\nproposes a")
    box(axes, look, (2.9, 3.2), (2.7, 1.1), "certificate\nmean + width ≤ b?")
    box(axes, look, (6.6, 3.9), (2.4, 0.8), "run the proposal", look.safe)
    box(axes, look, (6.6, 2.7), (2.4, 0.8), "nearest certified", look.safe)
    box(axes, look, (6.6, 1.5), (2.4, 0.8), "backup drives", look.backup)
    box(axes, look, (6.6, 0.3), (2.4, 0.8), "stop before it", look.unsafe)
    box(axes, look, (10.1, 2.4), (2.2, 1.3), "environment\ncost, signals")
    axes.text(4.25, 1.25, "none certified:\nwith a backup, or without", ha="center", va="center", color=look.faint)
    for start, end in [
        ((2.0, 3.75), (2.9, 3.75)),
        ((5.6, 3.9), (6.6, 4.3)),
        ((5.6, 3.6), (6.6, 3.1)),
        ((5.4, 3.2), (6.6, 1.9)),
        ((5.2, 3.2), (6.6, 0.7)),
        ((9.0, 4.3), (10.3, 3.7)),
        ((9.0, 3.1), (10.1, 3.1)),
        ((9.0, 1.9), (10.3, 2.4)),
    ]:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": look.ink})
    axes.plot([11.2, 11.2, 4.25], [3.7, 5.1, 5.1], color=look.faint, lw=1)
    axes.annotate("", (4.25, 4.3), (4.25, 5.12), arrowprops={"arrowstyle": "->", "color": look.faint})
    axes.text(7.8, 5.2, "account: what is spent → next threshold b", ha="center", va="bottom", color=look.faint)
    return figure


def advance(states: Array, forces: Array) -> Array:
    """Place and speed (n, 2) of carts after a step."""
    speed = 0.98 * states[:, 1] + SPAN * np.clip(forces[:, 0], -1, 1) - 0.02 * states[:, 1] ** 2
    return np.column_stack([states[:, 0] + SPAN * speed, speed])


def brake(states: Array) -> Array:
    """Force against the speed."""
    return np.clip(-5.0 * states[:, 1:], -1.0, 1.0)


def cart_shield() -> safexp.Shield:
    """A look-ahead shield of the cart, from the log of a cautious driver."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(80):
        state = np.array([[rng.uniform(-0.2, 0.2), 0.0]])
        for k in range(60):
            aim = 0.85 * np.sign(np.sin(k / 10 + episode))
            force = np.clip(0.9 * (aim - state[:, :1]) - state[:, 1:] + 0.3 * rng.normal(size=(1, 1)), -1, 1)
            force = brake(state) if 30 <= k <= 52 else force
            following = advance(state, force) + [0.0, 0.004] * rng.normal(size=(1, 2))
            rows.append((state[0], force[0], following[0], episode))
            state = following
    before, forces, after, numbers = map(np.array, zip(*rows, strict=True))
    box_of = spaces.Box(-9.0, 9.0, (2,), np.float64), spaces.Box(-1.0, 1.0, (1,), np.float64)
    backup = safexp.Backup(brake, horizon=HORIZON)
    shield = safexp.Shield(
        safexp.Calibrated(safexp.Rollout()), *box_of, constraint=safexp.Within(0, high=WALL), backup=backup
    )
    shield.fit(safexp.Log(before, forces, episodes=numbers, next_observations=after))
    return shield


def certificate(look: Look) -> Figure:
    """Predicted paths with their widths: one stays in front of the wall, one does not."""
    shield = cart_shield()
    calibrated = shield.quantifier
    assert isinstance(calibrated, safexp.Calibrated) and isinstance(calibrated.quantifier, safexp.Rollout)
    rollout, state = calibrated.quantifier, np.array([[0.84, 0.3]])
    figure, axes = axes_of(8.0, 3.4)
    for force in (-0.6, 0.9):
        decision = shield.filter(state[0], np.array([force]))
        refused = decision.intervened or decision.takeover
        colour, text = (look.unsafe, "refused") if refused else (look.safe, "certified")
        path = rollout.path(shield.states(state), np.array([[force]]))
        middle, width = path.signals[:, 0, 0], calibrated.scale * path.widths[:, 0, 0] + rollout.errors.least[0]
        now, steps, true = state, np.arange(1, len(middle) + 1), []
        for k in range(len(steps)):
            now = advance(now, np.array([[force]]) if k == 0 else brake(now))
            true.append(now[0, 0])
        axes.fill_between(steps, middle - width, middle + width, color=colour, alpha=0.25, lw=0)
        axes.plot(steps, middle, color=colour, label=f"action {force:+.1f}, then the brake: {text}")
        axes.plot(steps, true, ".", color=look.ink, ms=3)
    axes.axhspan(WALL, WALL + 0.04, color=look.unsafe, alpha=0.15, lw=0)
    axes.axhline(WALL, color=look.unsafe, lw=1)
    axes.text(0.2, WALL + 0.002, "limit", color=look.unsafe, va="bottom")
    axes.set(xlabel="steps from now", ylabel="place", ylim=(0.84, WALL + 0.04), xlim=(0, HORIZON + 1))
    axes.legend(frameon=False, loc="lower right", labelcolor=look.ink)
    return figure


def backups(look: Look) -> Figure:
    """What happens where nothing is certified: a stop, a brake, or the better of two ways out."""
    figure = Figure(figsize=(8.6, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    titles = ("Reset: stop, a human resets", "Backup: a controller takes over", "Several: the best way out")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=10)
        axes.set(xlim=(-2.2, 1.5), ylim=(-1.2, 1.3), aspect="equal", xticks=[], yticks=[], facecolor="none")
        axes.add_patch(Rectangle((0.5, -0.6), 0.8, 1.2, color=look.unsafe, alpha=0.3, lw=0))
        axes.plot([-2.0, -0.6], [0, 0], color=look.safe, lw=2)
        axes.plot(-0.6, 0, "o", color=look.ink, ms=5)
    panels[0].plot([-0.6, 0.75], [0, 0], color=look.faint, lw=2, ls=":")
    panels[0].text(-0.55, 0.12, "stop", ha="left")
    panels[0].text(
        -0.35, -0.95, "it still rolls: Reset(after=…)\njudges what that costs", ha="center", color=look.faint
    )
    panels[1].plot([-0.6, 0.25], [0, 0], color=look.backup, lw=3)
    panels[1].plot(0.25, 0, "s", color=look.backup, ms=6)
    panels[1].text(-0.2, 0.15, "brake", ha="center", color=look.backup)
    panels[1].text(-0.1, -0.95, "the last certificate\ncovered this way", ha="center", color=look.faint)
    angle = np.linspace(0, 1, 40)
    panels[2].plot(-0.6 + 1.9 * angle, 0.95 * np.sin(angle * np.pi / 2), color=look.backup, lw=3)
    panels[2].plot([-0.6, 0.25], [0, 0], color=look.faint, lw=2, ls=":")
    panels[2].text(-1.15, 0.6, "hold the turn,\nthen brake", ha="center", color=look.backup)
    panels[2].text(-0.1, -0.95, "an action is certified\nif one way is", ha="center", color=look.faint)
    return figure


def blank(width: float, height: float, across: tuple[float, float], up: tuple[float, float]) -> tuple[Figure, Axes]:
    """Axes without a frame."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=across, ylim=up)
    axes.axis("off")
    return figure, axes


def axes_of(width: float, height: float) -> tuple[Figure, Axes]:
    """Axes with two spines."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def box(
    axes: Axes,
    look: Look,
    corner: tuple[float, float],
    size: tuple[float, float],
    text: str,
    edge: str | None = None,
    *,
    bold: bool = False,
) -> None:
    """A rounded box with a text in its middle."""
    rounded = FancyBboxPatch(
        corner, *size, boxstyle="round,pad=0.02,rounding_size=0.12", fc=look.fill, ec=edge or look.faint, lw=1.4
    )
    axes.add_patch(rounded)
    middle = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    axes.text(*middle, text, ha="center", va="center", weight="bold" if bold else "normal")


if __name__ == "__main__":
    sys.exit(main())

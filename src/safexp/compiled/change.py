"""Translation of `ChangeModel`: trend, distance from the data, and the regressions of the residuals."""

from __future__ import annotations

import numpy as np

from safexp.compiled.landmarks import translate_landmarks
from safexp.compiled.program import Place, Program
from safexp.compiled.tables import TILE, padded, tiled, widened
from safexp.quantifiers.change import LEAST_WIDTH, ChangeModel
from safexp.quantifiers.targets import normal_multiplier


def translate_trend(
    program: Program, model: ChangeModel, scale: float, inputs: Place, now: int, mean: str, width: str
) -> None:
    """Statements for mean and width of the signals, without the regressions of what the trend leaves.

    All widths will be multiplied by the scale of a calibration, so those that it must not change are divided by it.
    """
    trend, beyond, add = model.trend, model.extrapolation, program.tables.add
    assert trend is not None and beyond is not None, "only fitted models are translated"
    size, signals, entries = inputs.size, model.num_signals, program.actions
    columns = padded(trend.weights.shape[0])
    numbers = [normal_multiplier(model.delta / signals), beyond.tested, beyond.landmarks.radius]
    marks = translate_landmarks(program, beyond.landmarks, trend.shift, trend.scale, inputs)
    program.use("change")
    name = program.struct(
        "signal_change",
        state=inputs.start,
        states=size,
        actions=entries,
        signals=signals,
        now=now,
        columns=columns,
        shift=add("changes of signals: means of the inputs", trend.shift),
        scale=add("standard deviations of the inputs", trend.scale),
        state_means=add("trend: weights of the state", trend.weights[:size]),
        action_means=add("trend: weights of the action", trend.weights[size:-1]),
        constants=add("trend: constants", trend.weights[-1]),
        state_roots=add("root of its covariance: state", _tiles([root[:size] for root in trend.roots])),
        action_roots=add("root of its covariance: action", _tiles([root[size:-1] for root in trend.roots])),
        root_constants=add("root of its covariance: constants", [widened(root[-1], columns) for root in trend.roots]),
        numbers=add(
            "multiplier, tested distance, radius; least widths; slopes",
            [*numbers, *(LEAST_WIDTH * model.sizes), *(beyond.slopes / scale)],
        ),
        shared=program.reserve(signals + signals * columns),
    )
    program.work(max(size, entries + columns) + TILE)
    program.of_state.append(f"change_state(&{name}, s);")
    program.predict.append(f"change_interval(&{name}, &{marks}, s, a, {mean}, {width});")


def _tiles(matrices: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([tiled(matrix) for matrix in matrices])

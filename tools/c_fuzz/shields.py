"""Small fitted shields, one for each thing that can be exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import safexp
from safexp.core.encoding import decode_actions

FEW = {"num_inducing": 40, "first_steps": 40}
"""Settings of a Gaussian process that is fitted in a second."""


class Case(NamedTuple):
    """A shield, and the observations and actions that it learned from."""

    shield: safexp.Shield
    observations: NDArray[Any]
    actions: NDArray[Any]


def _costs(observations: NDArray[Any], actions: NDArray[Any]) -> NDArray[Any]:
    return 0.35 + 0.3 * observations[:, 0] + 0.25 * actions[:, 0] * observations[:, 1] + 0.1 * actions[:, -1]


def _data(entries: int, actions: int, rows: int = 400) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(1)
    observations = rng.uniform(-1, 1, (rows, entries))
    return observations.astype(np.float32), rng.uniform(-1, 1, (rows, actions)).astype(np.float32)


def _on_costs(quantifier: safexp.Quantifier, *, entries: int = 3, **named: Any) -> Case:
    """A shield on costs in a box."""
    observations, actions = _data(entries, 2)
    costs = _costs(observations, actions)
    shield = safexp.Shield(quantifier, spaces.Box(-2, 2, (entries,)), spaces.Box(-1, 1, (2,)), **named)
    episodes = np.arange(len(costs)) // 5
    shield.fit(safexp.Log(observations, actions, np.clip(costs, 0, 1), margins=0.6 - costs, episodes=episodes))
    return Case(shield, observations, actions)


def _discrete(quantifier: safexp.Quantifier, **named: Any) -> Case:
    rng = np.random.default_rng(1)
    observations, actions = rng.uniform(-1, 1, (400, 3)).astype(np.float32), rng.integers(2, 7, 400)
    costs = np.clip(0.4 + 0.3 * observations[:, 0] * (actions - 4), 0, 1)
    shield = safexp.Shield(quantifier, spaces.Box(-2, 2, (3,)), spaces.Discrete(5, start=2), **named)
    shield.fit(safexp.Log(observations, actions, costs))
    return Case(shield, observations, actions)


def _several(quantifier: safexp.Quantifier, space: spaces.MultiDiscrete | spaces.MultiBinary, **named: Any) -> Case:
    """Actions with several entries, and observations that are tuples."""
    rng = np.random.default_rng(6)
    seen = spaces.Tuple((spaces.Box(-2.0, 2.0, (2,)), spaces.Discrete(3, start=1)))
    at, mode = rng.uniform(-1, 1, (500, 2)).astype(np.float32), rng.integers(1, 4, 500)
    shield = safexp.Shield(quantifier, seen, space, **named)
    actions = decode_actions(space, shield.candidates[rng.integers(len(shield.candidates), size=500)])
    entries = actions.reshape(500, -1)
    costs = np.clip(0.2 * mode * at[:, 0] + 0.3 * entries[:, 0] * at[:, 1] + 0.1 * entries[:, -1], 0, 1)
    shield.fit(safexp.Log({"0": at, "1": mode}, actions, costs))
    return Case(shield, np.column_stack([at, mode]), actions)


def _on_signals(quantifier: safexp.Quantifier, constraint: safexp.Constraint) -> Case:
    """Two limited signals, one of them an entry of the observation."""
    rng = np.random.default_rng(2)
    observations = rng.uniform(-1, 1, (500, 4))
    actions = rng.uniform(-1, 1, (500, 2))
    level = observations[:, 1] + 0.2 * actions[:, 0] + 0.05 * np.sin(3 * observations[:, 0])
    heat = observations[:, 2] - 0.3 * actions[:, 1] * observations[:, 3]
    following = observations.copy()
    following[:, 1] = level
    box = spaces.Box(-5.0, 5.0, (4,), np.float64)
    shield = safexp.Shield(quantifier, box, spaces.Box(-1.0, 1.0, (2,), np.float64), constraint=constraint)
    log = safexp.Log(
        observations,
        actions,
        episodes=np.arange(500) // 5,
        signals={"heat": heat},
        next_observations=following,
        costs=np.clip(_costs(observations, actions), 0, 1) if isinstance(constraint, safexp.AllOf) else None,
    )
    shield.fit(log)
    return Case(shield, observations, actions)


def _cart(degree: int, backup: Any = None, quantifier: safexp.Quantifier | None = None) -> Case:
    """A cart that must stay within ±1 and needs several steps to stop; its backup brakes."""
    rng, rows = np.random.default_rng(3), []
    for episode in range(70):
        state = np.array([rng.uniform(-0.3, 0.3), 0.0])
        for step in range(40):
            aim = 0.6 * np.sign(np.sin(step / 8 + episode))
            action = np.clip(0.8 * (aim - state[0]) - 1.2 * state[1] + 0.3 * rng.normal(), -1, 1)
            if step % 20 > 9:
                action = np.clip(-5.0 * state[1], -1, 1)
            speed = 0.98 * state[1] + 0.1 * action + 0.004 * rng.normal()
            after = np.array([state[0] + 0.1 * speed, speed])
            rows.append((state, [action], after, episode))
            state = after
    observations, actions, following, episodes = map(np.array, zip(*rows, strict=True))
    brake = backup or safexp.LinearFeedback([[0.0, -5.0]], low=-1.0, high=1.0)
    shield = safexp.Shield(
        quantifier or safexp.Rollout(degree=degree),
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
        spaces.Box(-1.0, 1.0, (1,)),
        constraint=safexp.Within(0, low=-1.0, high=1.0),
        backup=safexp.Backup(brake, 12),
    )
    shield.fit(safexp.Log(observations, actions, episodes=episodes, next_observations=following))
    return Case(shield, observations, actions)


def _network() -> safexp.Network:
    rng = np.random.default_rng(4)
    hidden = safexp.Layer(0.5 * rng.normal(size=(2, 7)), 0.1 * rng.normal(size=7), "tanh")
    return safexp.Network([hidden, safexp.Layer(rng.normal(size=(7, 1)), np.zeros(1))], low=[-1.0], high=[1.0])


def _mixed() -> Case:
    """Dict observations with a choice among them, costs with levels, and an action that the user vouches for."""
    rng = np.random.default_rng(5)
    space = spaces.Dict({"mode": spaces.Discrete(3, start=1), "at": spaces.Box(-2.0, 2.0, (2,))})
    observations = {"mode": rng.integers(1, 4, 400), "at": rng.uniform(-1, 1, (400, 2)).astype(np.float32)}
    actions = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
    costs = (observations["at"][:, 0] + actions[:, 0] > 0.4 * observations["mode"]).astype(float)
    shield = safexp.Shield(
        safexp.SparseGP(**FEW), space, spaces.Box(-1, 1, (2,)), levels=(0, 0.5, 1), safe_action=[-1.0, 0.0]
    )
    shield.fit(safexp.Log(observations, actions, costs))
    flat = np.column_stack([observations["at"], observations["mode"]])
    return Case(shield, flat, actions)


_LINEAR = safexp.Linear([0.3, 0.1, -0.2], [0.2, 0.1], 0.4)
_TWO = safexp.Within((1, "heat"), low=-1.0, high=(1.2, 1.1))
_STEPS = safexp.Linear([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 0.0]], [[0.2, 0.0], [0.0, -0.2]], [0.0, 0.01])

CASES: dict[str, Callable[[], Case]] = {
    "SparseGP": lambda: _on_costs(safexp.SparseGP(**FEW)),
    "SparseGP, margin": lambda: _on_costs(safexp.SparseGP("margin", **FEW)),
    "SparseGP, 44 inputs, 128 points": lambda: _on_costs(safexp.SparseGP(first_steps=20), entries=44),
    "SparseGP, calibrated": lambda: _on_costs(safexp.Calibrated(safexp.SparseGP(**FEW), delta=0.1, rungs=1, least=1.3)),
    "SparseGP, discrete": lambda: _discrete(safexp.SparseGP(**FEW)),
    "SparseGP, Dict, levels, safe action": _mixed,
    "SparseGP, MultiDiscrete, Tuple": lambda: _several(
        safexp.SparseGP(**FEW), spaces.MultiDiscrete([3, 4], start=[1, 0]), safe_action=[1, 0]
    ),
    "FeatureRegression, MultiBinary, Tuple": lambda: _several(
        safexp.FeatureRegression(num_features=60), spaces.MultiBinary((2, 2))
    ),
    "FeatureRegression": lambda: _on_costs(safexp.FeatureRegression(num_features=60)),
    "FeatureRegression, learned": lambda: _on_costs(
        safexp.FeatureRegression(features="learned", num_features=20, first_steps=50)
    ),
    "DeepGP(shared)": lambda: _on_costs(safexp.DeepGP(widths=(4, 4), shared=True, num_inducing=24, first_steps=20)),
    "Known, linear": lambda: _on_costs(safexp.Known(_LINEAR, 0.05)),
    "Unknown": lambda: _on_costs(safexp.Unknown()),
    "Known, signals": lambda: _on_signals(safexp.Known(_STEPS, 0.02), _TWO),
    "ChangeModel of SparseGP": lambda: _on_signals(safexp.SparseGP(**FEW), _TWO),
    "ChangeModel of FeatureRegression, calibrated": lambda: _on_signals(
        safexp.Calibrated(safexp.FeatureRegression(num_features=40), delta=0.1, rungs=1, least=1.3), _TWO
    ),
    "AllOf": lambda: _on_signals(
        safexp.PerCost(safexp.FeatureRegression(num_features=40), safexp.SparseGP(**FEW)),
        safexp.AllOf(_TWO, safexp.Instantaneous(0.6)),
    ),
    "Rollout, degree 1": lambda: _cart(1),
    "Rollout, degree 3": lambda: _cart(3),
    "Rollout, calibrated": lambda: _cart(
        2, quantifier=safexp.Calibrated(safexp.Rollout(degree=2), delta=0.1, least=1.3)
    ),
    "Rollout, backup is a network": lambda: _cart(1, _network()),
}
"""Shields by the name of what they test."""

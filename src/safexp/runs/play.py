"""Playing episodes with a trained agent: proposals, decisions of the shield, and thresholds, step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations, take
from safexp.envs.vector import BatchedVecEnv
from safexp.mase.agent import Agent
from safexp.records.episodes import Episode
from safexp.runs.actor import Actor
from safexp.runs.config import RunConfig
from safexp.runs.evaluate import FRESH
from safexp.runs.forecast import Forecast, forecast
from safexp.runs.load import load_with_settings
from safexp.tasks.scene import Scene, Way, scenes_of

CELLS = 21
"""Number of actions along each axis of a box for which the shield's decision is shown."""

INSTEAD = "Leave --video out to get the table of its episodes."

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Choices:
    """Actions that cover the action space, and which of them the shield certifies in this state.

    `safe` is (CELLS, CELLS) for a box of two dimensions, first axis first; (CELLS,) for one; (n,) for n discrete
    actions.
    """

    low: Array
    high: Array
    safe: NDArray[np.bool_]


@dataclass(frozen=True)
class Moment:
    """A state in which an agent acts, and its step; the last moment of an episode has no step.

    `view` is the scene from above, or the environment's own rendering, if there is any. `threshold` is the largest
    allowed next cost, for a budget the remaining one, in the constraint's scale; `signal` is the last step's cost (or
    margin) in the user's units, None before the first. `takeover` if the backup drives instead of the policy, and
    `forecast` is what a certificate that looks ahead predicts for the executed action and then the backup. `outcome` is
    the finished episode.
    """

    episode: int
    step: int
    view: Scene | Picture | None
    threshold: float
    signal: float | None
    total_cost: float
    total_return: float
    choices: Choices | None = None
    proposed: Any = None
    executed: Any = None
    intervened: bool = False
    takeover: bool = False
    forecast: Forecast | None = None
    outcome: Episode | None = None


@dataclass
class Player:
    """Player of episodes with a run's agent on one environment.

    Args:
        config: settings of the run.
        agent: its agent.
        filmed: whether moments include a view and the safe actions.

    Example:
        >>> options = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
        >>> config = safexp.RunConfig(steps=64, num_envs=4, learner_options=options, out=Path("runs/first"))
        >>> player = safexp.Player.load(safexp.run(config))
        >>> moments = list(player.play(1))
        >>> moments[-1].outcome.violated
        False
    """

    config: RunConfig
    agent: Agent
    filmed: bool
    _trail: list[Array] = field(default_factory=list)

    @classmethod
    def load(cls, path: str | Path, shielding: bool = True, filmed: bool = False) -> Player:
        """Load the agent of a run folder, or one by name (`safexp.load`); `filmed` if its moments will be drawn."""
        config, agent = load_with_settings(path, 1)
        if filmed and _scenes(agent) is None:
            agent.envs.close()
            if "rgb_array" not in (_vector(agent).envs.metadata.get("render_modes") or ()):
                raise ValueError(
                    f"task {config.task!r} cannot be filmed: it has no scene() and no render mode rgb_array. {INSTEAD}"
                )
            config, agent = load_with_settings(path, 1, render_mode="rgb_array")
        if not shielding and not agent.shielded:
            agent.envs.close()
            raise ValueError(f"{path}: method {config.method!r} has no shield; leave --no-shield out.")
        agent.evaluate(shielding)
        return cls(config, agent, filmed)

    def play(self, episodes: int, seed: int | None = None, deterministic: bool = True) -> Iterator[Moment]:
        """Play episodes one after the other; by default with a seed that the agent was not trained on."""
        envs, recorder = self.agent.envs, self.agent.envs.recorder
        self.agent.learner.set_random_seed(self.config.seed if seed is None else seed)
        envs.seed(self.config.seed + FRESH if seed is None else seed)
        seen, actor = envs.reset(), Actor(self.agent, deterministic)
        try:
            while len(recorder.episodes) < episodes:
                seen = yield from self._episode(seen, len(recorder.episodes), actor)
        finally:
            envs.close()

    def _episode(self, seen: Observations, number: int, actor: Actor) -> Generator[Moment, None, Observations]:
        """Play one episode from its first observation; returns the first observation of the next."""
        envs, constraint = self.agent.envs, self.agent.envs.constraint
        self._trail = []
        step, signal, total_cost, ended = 0, None, 0.0, False
        while not ended:
            left, so_far = float(np.min(envs.account.thresholds)), float(envs.recorder.returns[0])
            moment = Moment(number, step, self._view(), left, signal, total_cost, so_far)
            choices = self._choices(seen) if self.filmed else None
            state = self._state(seen)
            proposed, seen, dones, infos = actor.step(seen)
            done = infos[0].get("shield", {"action": proposed[0], "intervened": False})
            moment = replace(moment, choices=choices, proposed=proposed[0], executed=done["action"])
            moment = replace(moment, intervened=done["intervened"], takeover=done.get("takeover", False))
            yield self._foreseen(moment, state)
            signals, ended, step = envs.recorder.latest, bool(dones[0]), step + 1
            signal = float(signals[0]) if signals.ndim == 1 else None  # several costs are not shown
            total_cost += float(np.sum(constraint.true_cost(signals)[0]))
        outcome = envs.recorder.episodes[number]
        left, last = float(np.min(envs.remaining)), _last_view(moment.view, infos[0])
        yield Moment(number, step, last, left, signal, total_cost, outcome.true_return, outcome=outcome)
        return seen

    def _view(self) -> Scene | Picture | None:
        if not self.filmed:
            return None
        scenes = _scenes(self.agent)
        if scenes is None:
            (picture,) = _vector(self.agent).envs.render() or (None,)
            if not isinstance(picture, np.ndarray):
                raise ValueError(
                    f"task {self.config.task!r} cannot be filmed: its render() returned {picture!r}. {INSTEAD}"
                )
            return picture.astype(np.uint8)
        scene = scenes(0)
        self._trail.append(scene.position)
        return replace(scene, trail=np.stack(self._trail))

    def _state(self, seen: Observations) -> Array | None:
        """Encoded state (ds,) in which a certificate that looks ahead will be asked for its forecast."""
        shield = self.agent.shield
        if not self.filmed or shield is None or not shield.quantifier.looks_ahead:
            return None
        return shield.states(self.agent.observed(seen), self.agent.envs.measured)[0]

    def _foreseen(self, moment: Moment, state: Array | None) -> Moment:
        """Moment with the forecast for its executed action."""
        if state is None or self.agent.shield is None:
            return moment
        found = forecast(self.agent.shield, state, moment.executed)
        view = moment.view
        if isinstance(found, Way) and isinstance(view, Scene):
            view = replace(view, ahead=found)
        return replace(moment, forecast=found, view=view)

    def _choices(self, seen: Observations) -> Choices | None:
        space, shield = self.agent.envs.action_space, self.agent.shield
        if shield is None:
            return None
        raw, threshold = take(self.agent.observed(seen), 0), self.agent.envs.account.certifiable[0]
        measured = self.agent.envs.measured[0]
        if isinstance(space, spaces.Discrete):
            some, low, high = np.arange(space.n) + self.agent.envs.first_action, np.zeros(1), np.array([space.n - 1.0])
            return Choices(low, high, shield.certified(raw, some, threshold, measured=measured))
        if not isinstance(space, spaces.Box) or space.shape not in ((1,), (2,)):
            return None
        axes = [np.linspace(low, high, CELLS) for low, high in zip(space.low, space.high, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        actions = grid.reshape(-1, *space.shape)
        safe = shield.certified(raw, actions, threshold, measured=measured)
        return Choices(space.low.astype(float), space.high.astype(float), safe.reshape(grid.shape[:-1]))


def _last_view(before: Scene | Picture | None, info: dict[str, Any]) -> Scene | Picture | None:
    """View after the last step of an episode, which the environments, already reset, no longer show."""
    if not isinstance(before, Scene) or "position" not in info:
        return before
    position = np.asarray(info["position"], dtype=np.float64)
    return replace(before, position=position, trail=np.concatenate([before.trail, position[None]]))


def _vector(agent: Agent) -> BatchedVecEnv:
    venv = agent.envs.venv
    assert isinstance(venv, BatchedVecEnv), "a run is built on a VectorEnv"
    return venv


def _scenes(agent: Agent) -> Callable[[int], Scene] | None:
    return scenes_of(_vector(agent).envs)

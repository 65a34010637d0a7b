"""Settings of a run, as plain values that determine it completely."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, get_args

import gymnasium as gym
import tyro

from safexp.backups.penalty import Penalty
from safexp.constraints import Within
from safexp.constraints.parse import parse_within
from safexp.mase.defaults import default_options
from safexp.runs.plugins import find_task, is_own

Method = Literal["mase", "bare", "trpo", "trpo-lagrangian", "cpo", "saute", "early-termination"]
OWN_LEARNERS = MappingProxyType({"trpo": "TRPO", "trpo-lagrangian": "TRPOLagrangian", "cpo": "CPO"})
"""Methods that are learners themselves; the others wrap one."""

METHOD_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mase": ("show_threshold", "levels", "rewriting", "epoch_steps"),
        "saute": ("discount", "horizon", "unsafe_reward"),
        "early-termination": ("show_threshold", "penalty"),
    }
)
"""Options of the methods that wrap a learner: arguments of MASE, Saute and EarlyTermination."""

ConstraintName = Literal["budget", "instantaneous", "margin", "schedule", "within"]
BackupName = Literal["reset", "controller", "fallback", "learned-reset"]
ReplacementName = Literal["nearest", "critic"]
FITTED = ("sparse-gp", "deep-gp", "features", "rollout", "planar-path")
"""Quantifiers whose widths are a fit, without a guarantee until they are calibrated."""
QuantifierName = Literal["unknown", "known", "exact-gp", "sparse-gp", "deep-gp", "features", "rollout", "planar-path"]


def _or_own(choices: Any) -> Any:
    """Command-line metavar of a name that may also be user-defined."""
    return tyro.conf.arg(metavar=f"{{{','.join(get_args(choices))},PACKAGE:NAME}}")


def _parse_options(text: str) -> dict[str, Any]:
    options = json.loads(text)
    if not isinstance(options, dict):
        raise ValueError("expected a JSON object such as '{\"learning_rate\": 0.001}'")
    return options


Options = Annotated[
    Mapping[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: _parse_options(words[0]),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [json.dumps(dict(value))],
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run of one method on one task; the same settings give the same run.

    Whether the task and the learner exist and accept their options is checked when the run is built, which is still
    before anything is written.

    Invalid settings raise a `ValueError` that names the setting.

    Args:
        task: a Gymnasium id; `package:Name-v0` imports the package first. `safexp tasks` lists the built-in tasks.
        task_options: arguments of the task, such as {"cost": "margin"} for a Goal task.
        method: `mase` shields the learner; `bare` does not restrict it and counts violations. `saute` shows it the
            remaining budget and rewards it with −1 once that is spent; `early-termination` ends an episode after its
            violation. `trpo`, `trpo-lagrangian` and `cpo` are learners themselves; the last two keep the budget in
            expectation. `package:function` builds a custom agent (docs/how-to/extending.md).
        method_options: settings of `mase` (such as {"show_threshold": false}), `saute`, `early-termination` or a custom
            method.
        constraint: `budget` bounds the sum of the costs of an episode, `instantaneous` every single cost, `schedule`
            every cost by a limit that changes during an episode, `margin` keeps the task's signed distance to the limit
            at or above 0, `within` applies only the limits of `--within`.
        within: limit on a measured signal; may be repeated. `current:-100:100` keeps info["current"] between the two,
            `3::5` keeps entry 3 of the observation at or below 5, `level::4,50=3` info["level"] at or below 4, and
            3 from step 50 on. These limits apply in addition to the constraint.
        limit: limit of the budget (default 3), or of every cost; a schedule and a margin have none.
        schedule: the limits of a schedule by their first steps: {"0": 0.5, "100": 0.2}.
        discount: discount of the sum that a budget bounds; 1 is no discount.
        cost: key of the cost in the task's info, or `package:function`, a function of the observations, actions and
            next observations of all copies (n, ...) that returns their costs (n,).
        cost_max: largest cost that the task can return; for a margin, the distance beyond 0 at which the cost
            saturates.
        quantifier: `unknown` (costs are at most `cost_max`: needs a budget), `known` (the task provides its cost
            function), or learned, from safe transitions if the task provides some: `exact-gp` (its bound holds if the
            task's settings do), `sparse-gp` (fast; no guarantee), `deep-gp` (the paper's; no guarantee), `features`
            (linear in random or learned features), `rollout` (a one-step model rolled out through the backup
            controller) or `planar-path` (the path of a robot and its backup past obstacles), or `package:Name`, a
            custom quantifier.
        quantifier_options: settings of the quantifier, which override those that the task recommends; with
            {"target": "margin"} a learned one models the task's signed margin instead of its cost.
        calibrate: calibrate the quantifier's widths on held-out stretches and on misses during the run
            (`safexp.Calibrated`); by default a learned one is calibrated under limits on every step. `--no-calibrate`
            uses it as it is.
        calibration_options: settings of the calibration, such as {"delta": 0.05}.
        seed_data: file of logged transitions to learn from before the first step (.csv, .parquet or .npz), in place of
            the task's own.
        backup: what `mase` does where nothing is certified: `reset` ends the episode, which needs a human (the paper);
            `controller` lets the task's backup controller drive; `fallback` lets a controller drive out of a cost while
            the budget covers that; `learned-reset` learns a second policy for that.
        backup_options: settings of the backup (`safexp.Recovery`), such as {"drills": 0.02}. With {"after": "backup"}
            the task's backup controller drives on after a `reset`, and the stop is judged by what happens then;
            "fallback" and `package:function` are other controllers, which need {"steps": ...}.
        learner: TRPO of safexp, or an algorithm of Stable-Baselines3 or sb3-contrib, such as PPO, SAC, TD3 or DQN, or
            `package:Name`, a custom algorithm class.
        learner_options: settings of the learner, which override our defaults; {"torch.nn": "ReLU"} is a class.
        penalty: penalty of a stop when nothing is known about the costs; c in −c / width.
        largest_penalty: penalty when the stop was certain; by default the same, which makes it a constant.
        moved_penalty: penalty of a replaced proposal, in proportion to how far it was moved; for on-policy learners.
        replacement: the certified action that replaces a refused proposal: the `nearest` one, the one with the highest
            value of the learner's `critic` (SAC, TD3, DDPG), or `package:function`, the one with the highest score.
        warm_start: begin with a policy that imitates the log (`seed_data`, or the task's own), instead of a random one.
        imitation: largest KL divergence of a supervised step, at the end of every epoch, towards the executed actions
            where proposals were replaced; for on-policy learners; 0 for none.
        num_envs: number of parallel copies of the task.
        steps: number of environment steps to train for, over all copies.
        seed: seed of all random numbers.
        name: name of the method in legends and tables; by default the method and the settings that tell it from others.
        out: run folder, which must not exist; by default runs/TASK-METHOD-SEED.

    Example:
        >>> config = safexp.RunConfig(task="safexp/PlanarRobot-v0", learner="PPO", limit=3.0, steps=20_000, seed=1)
        >>> config.method, config.quantifier
        ('mase', 'unknown')
    """

    task: str = "safexp/PlanarRobot-v0"
    task_options: Options = field(default_factory=dict)
    method: Annotated[str, _or_own(Method)] = "mase"
    method_options: Options = field(default_factory=dict)
    constraint: ConstraintName = "budget"
    within: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    limit: Annotated[float | None, tyro.conf.arg(aliases=("--budget",), metavar="FLOAT")] = None
    schedule: Options = field(default_factory=dict)
    discount: float = 1.0
    cost: str = "cost"
    cost_max: float = 1.0
    quantifier: Annotated[str, _or_own(QuantifierName)] = "unknown"
    quantifier_options: Options = field(default_factory=dict)
    calibrate: tyro.conf.DisallowNone[bool | None] = None  # flags, --calibrate and --no-calibrate
    calibration_options: Options = field(default_factory=dict)
    seed_data: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    backup: BackupName = "reset"
    backup_options: Options = field(default_factory=dict)
    learner: str = "PPO"
    learner_options: Options = field(default_factory=dict)
    penalty: float = Penalty.c
    largest_penalty: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    moved_penalty: float = 0.0
    replacement: Annotated[str, _or_own(ReplacementName)] = "nearest"
    warm_start: bool = False
    imitation: float = 0.0
    num_envs: int = 16
    steps: int = 60_000
    seed: int = 0
    name: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None

    def __post_init__(self) -> None:
        seed_data: Any = self.seed_data
        within: Any = self.within
        if isinstance(seed_data, str):  # in JSON, paths are strings and tuples are lists
            object.__setattr__(self, "seed_data", Path(seed_data))
        if isinstance(within, list):
            object.__setattr__(self, "within", tuple(within))
        if not (isinstance(self.within, tuple) and all(isinstance(limit, str) for limit in self.within)):
            raise ValueError(f"within={self.within!r} has the wrong type: expected limits such as current:-100:100.")
        if not (self.calibrate is None or isinstance(self.calibrate, bool)):
            raise ValueError(f"calibrate={self.calibrate!r} has the wrong type: expected true, false or null.")
        if not (self.seed_data is None or isinstance(self.seed_data, Path)):
            raise ValueError(f"seed_data={self.seed_data!r} has the wrong type: expected the name of a file.")
        if not (self.name is None or (isinstance(self.name, str) and self.name.strip())):
            raise ValueError(f"name={self.name!r} must be a text, or left out.")
        for entry in dataclasses.fields(self):
            usual = entry.default_factory() if callable(entry.default_factory) else entry.default
            given = getattr(self, entry.name)
            if entry.name not in ("out", "seed_data", "calibrate", "within", "name") and not _alike(given, usual):
                raise ValueError(f"{entry.name}={given!r} has the wrong type: expected a value like {usual!r}.")
        for name, choices in [
            ("method", Method),
            ("constraint", ConstraintName),
            ("quantifier", QuantifierName),
            ("backup", BackupName),
            ("replacement", ReplacementName),
        ]:
            given, own = getattr(self, name), name in ("method", "quantifier", "replacement")
            if given not in get_args(choices) and not (own and is_own(given)):
                hint = " and not package:name" if own else ""
                raise ValueError(f"{name}={given!r} is not one of {', '.join(get_args(choices))}{hint}.")
        for name, least in [("num_envs", 1), ("steps", 1), ("seed", 0)]:
            if (given := getattr(self, name)) < least:
                raise ValueError(f"{name}={given} must be at least {least}.")
        for name in (
            *("task_options", "method_options", "schedule"),
            *("quantifier_options", "calibration_options", "backup_options", "learner_options"),
        ):
            _check_json(name, getattr(self, name))
        allowed = METHOD_OPTIONS.get(self.method, ())
        for name in self.method_options:
            if name not in allowed and not is_own(self.method):
                known = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
                raise ValueError(f"method_options has {name!r}, which method {self.method!r} does not take: {known}.")
        if self.method != "mase" and (self.backup != "reset" or self.backup_options):
            raise ValueError(
                f"backup={self.backup!r} is an option of method 'mase', not of {self.method!r}: leave it out."
            )
        for name in ("replacement", "warm_start", "imitation"):
            if self.method != "mase" and (given := getattr(self, name)) != getattr(type(self), name):
                raise ValueError(
                    f"{name}={given!r} is an option of method 'mase', not of {self.method!r}: leave it out."
                )
        itself = OWN_LEARNERS.get(self.method)
        if itself and self.learner not in (itself, type(self).learner):
            raise ValueError(
                f"learner={self.learner!r}: method {self.method!r} is a learner itself; leave --learner out."
            )
        Penalty(self.penalty, self.largest_penalty, self.moved_penalty)  # raises a clear error
        self._check_constraint()

    def settled(self) -> Self:
        """Complete settings: every default that depends on other values is filled in, as the run folder records it."""
        constraint: ConstraintName = self.constraint
        if self.within and constraint == "budget" and self.limit is None:
            constraint = "within"
        learner = OWN_LEARNERS.get(self.method, self.learner)
        steps = _episode_steps(self.task, self.task_options)
        learned = self.quantifier in FITTED and (constraint != "budget" or self.quantifier == "planar-path")
        return dataclasses.replace(
            self,
            constraint=constraint,
            limit=3.0 if self.limit is None and constraint == "budget" else self.limit,
            calibrate=learned if self.calibrate is None else self.calibrate,
            learner=learner,
            learner_options={
                **default_options(learner, self.num_envs, steps, self.learner_options.get("n_steps")),
                **self.learner_options,
            },
        )

    @property
    def folder(self) -> Path:
        """The run folder."""
        name = f"{self.task}-{self.method}-{self.seed}"
        return self.out or Path("runs") / name.replace("/", "-").replace(":", "-")

    def to_json(self) -> dict[str, Any]:
        """Everything that determines the run, which excludes its folder."""
        document = dataclasses.asdict(self)
        del document["out"]
        document["within"] = list(self.within)
        document["seed_data"] = None if self.seed_data is None else str(self.seed_data)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any], out: Path | None = None) -> Self:
        """Settings from the JSON of `to_json`."""
        unknown = sorted(set(document) - {entry.name for entry in dataclasses.fields(cls)} | {"out"} & set(document))
        if unknown:
            raise ValueError(f"unknown settings {', '.join(unknown)}: written by another version of safexp?")
        return cls(**document, out=out)

    def command(self) -> str:
        """The shell command that repeats this run."""
        usual = type(self)().to_json()
        words = ["safexp", "train"]
        for name, value in self.to_json().items():
            if value != usual[name]:
                flag = name.replace("_", "-")
                if isinstance(value, bool):
                    words.append(f"--{flag}" if value else f"--no-{flag}")
                elif isinstance(value, list):
                    words += [word for text in value for word in (f"--{flag}", text)]
                else:
                    words += [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]
        return shlex.join([*words, *([] if self.out is None else ["--out", str(self.out)])])

    @property
    def phases(self) -> dict[int, float]:
        """The limits of a schedule by their first steps, in order."""
        try:
            found = {int(step): float(limit) for step, limit in self.schedule.items()}
        except (TypeError, ValueError) as error:
            raise ValueError(f"schedule={dict(self.schedule)} must map steps to limits ({error}).") from None
        if min(found) != 0 or not all(math.isfinite(limit) and limit >= 0 for limit in found.values()):
            raise ValueError(f"schedule={found} must begin at step 0 and have finite limits of at least 0.")
        return dict(sorted(found.items()))

    @property
    def signal_limits(self) -> list[Within]:
        """The limits on signals, from `within`."""
        return [parse_within(text) for text in self.within]

    def _check_constraint(self) -> None:
        if self.constraint == "within" and not self.within:
            raise ValueError("constraint='within' needs a limit, for example --within current:-100:100.")
        self.signal_limits  # noqa: B018 (raises a clear error)
        if self.within and self.method in ("trpo-lagrangian", "cpo", "saute"):
            raise ValueError(f"method={self.method!r} supports only budgets: leave --within out.")
        if self.constraint == "margin" and self.cost != type(self).cost:
            raise ValueError(f"cost={self.cost!r}: a margin is read from info['margin'] and has no cost; leave it out.")
        if self.constraint == "margin" and self.limit is not None:
            raise ValueError(f"limit={self.limit}: a margin has no limit, it must stay at or above 0; leave it out.")
        if (self.constraint == "schedule") != bool(self.schedule):
            raise ValueError(
                f"schedule={dict(self.schedule)} and constraint={self.constraint!r} do not go together: use both, for "
                'example --constraint schedule --schedule \'{"0": 0.5, "100": 0.2}\', or neither.'
            )
        if self.constraint == "schedule" and self.limit is not None:
            raise ValueError(f"limit={self.limit}: a schedule has its own limits; leave it out.")
        if self.schedule:
            self.phases  # noqa: B018 (raises a clear error)
        if self.constraint == "instantaneous" and self.limit is None:
            raise ValueError("an instantaneous constraint needs a limit, for example --limit 0.3.")
        if self.limit is not None and not (math.isfinite(self.limit) and self.limit >= 0):
            raise ValueError(f"limit={self.limit} (--budget, --limit) must be finite and at least 0; 0 allows no cost.")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount={self.discount} must lie in (0, 1]; 1 is no discount.")
        if self.discount != 1 and self.constraint != "budget":
            raise ValueError(
                f"discount={self.discount} is for a budget; leave it out with --constraint {self.constraint}."
            )
        if not (math.isfinite(self.cost_max) and self.cost_max > 0):
            raise ValueError(f"cost_max={self.cost_max} must be finite and above 0: it is the largest cost of a step.")
        if self.method in ("trpo-lagrangian", "cpo", "saute") and self.constraint != "budget":
            raise ValueError(
                f"method={self.method!r} supports only budgets, not {self.constraint!r}: use --constraint budget."
            )
        if self.method == "saute" and self.limit == 0:
            raise ValueError("method='saute' divides by its budget, which must be above 0: for example --budget 1.")
        limits_steps = bool(self.within) or self.constraint != "budget"
        if self.method == "mase" and self.quantifier == "unknown" and limits_steps:
            kind = "within" if self.constraint == "budget" else self.constraint
            raise ValueError(
                f"quantifier='unknown' certifies nothing under a constraint of kind {kind!r}: "
                "use --quantifier known or a learned one, or --constraint budget."
            )


def _episode_steps(task: str, options: Mapping[str, Any]) -> int | None:
    """Largest number of steps of an episode, if it is known; a task that does not exist is refused later."""
    if "max_episode_steps" in options:
        return int(options["max_episode_steps"])
    with suppress(ValueError):
        find_task(task)
        return gym.spec(task.rpartition(":")[2]).max_episode_steps
    return None


def _alike(value: Any, usual: Any) -> bool:
    """Whether a value from a file has the type of the default; a default of None is an optional number."""
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if usual is None or isinstance(usual, float):
        return isinstance(value, int | float) or (usual is None and value is None)
    return isinstance(value, Mapping if isinstance(usual, dict) else type(usual))


def _check_json(name: str, options: Mapping[str, Any]) -> None:
    try:
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name}={options!r} must be a mapping of JSON values ({error}).") from None

"""A field trial: log of a cautious controller, doctor, shield, training with a backup, audit; the same for all."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy.stats import t as student

from safexp.backups.backup import Backup
from safexp.backups.penalty import Penalty
from safexp.core.arrays import Array, Controller
from safexp.doctor.examine import examine
from safexp.learners.trpo import TRPO
from safexp.mase.mase import MASE
from safexp.quantifiers import Calibrated, Rollout
from safexp.records.episodes import own_share
from safexp.records.statistics import exact_interval
from safexp.runs.evaluate import Subject, first_episodes
from safexp.shield.logs import Log
from safexp.studies.field.ledger import Book, Ledger
from safexp.studies.field.system import System

COPIES, EARLY, AUDITED, FIRST_SEED = 8, 20, 32, 1_000_000
"""Environments at a time, first episodes counted apart, episodes of an audit, and the seed of the first."""

LEARNING: dict[str, Any] = {"n_steps": 256, "gamma": 0.95, "gae_lambda": 0.9}
"""Options of TRPO for all systems. Rewards are dense, and set points that jump make distant rewards noise."""

DELTA = 0.05


def trial(system: System, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Log, examination, training behind a look-ahead shield, and audit, as one row of the table."""
    log, book = recorded(system, np.random.default_rng([seed, 1])), Book()
    envs = copies(system, book)
    found = examine(
        log,
        constraint=system.limits,
        observation_space=envs.single_observation_space,
        action_space=envs.single_action_space,
        delta=DELTA,
        backup=Backup(system.backup, system.horizon),
    )
    agent = MASE(
        envs,
        system.limits,
        Calibrated(Rollout(), delta=DELTA),  # as in `found.lines`
        TRPO,
        learner_options=LEARNING,
        penalty=Penalty(1.0, moved=0.3),
        seed_data=log,
        backup=Backup(system.backup, system.horizon, drills=0.02),
        warm_start=True,
        seed=seed,
    )
    agent.learn(steps or system.steps)
    trained, counted = book.begun(), agent.violations
    own = own_share(agent.episodes[-100:])
    cautious = driven(system, system.cautious)
    shielded, alone = audited(agent, book, True), audited(agent, book, False)
    bare = bare_learner(system, seed, steps or system.steps)
    outside = sum(entry.violated for entry in trained)
    return {
        "seed": seed,
        "doctor": found.verdict,
        "stops_of_doctor": [one.topic for one in found.findings if one.severity == "stop"],
        "log_steps": len(log.actions),
        "steps": agent.learner.num_timesteps,
        "episodes": len(trained),
        "violations_early": sum(entry.violated for entry in trained[:EARLY]),
        "violations": outside,
        "violation_interval": exact_interval(outside, len(trained)),
        "counted_by_safexp": counted,
        "after_stop_violations": sum(episode.after_stop_violated for episode in agent.episodes),
        "stops": sum(episode.stopped for episode in agent.episodes),
        "takeover_steps": sum(episode.takeovers for episode in agent.episodes),
        "drills": agent.metrics().get("drills"),
        "drills_missed": agent.metrics().get("drills_missed"),
        "own_actions": own,
        "audit_violations": int(shielded[1].sum()),
        "unshielded_violations": int(alone[1].sum()),
        "unshielded_return": float(alone[0].mean()),
        "bare_training_violations": bare[2],
        "bare_violations": int(bare[1].sum()),
        "bare_return": float(bare[0].mean()),
        "cautious_violations": int(cautious[1].sum()),
        "cautious_return": float(cautious[0].mean()),
        "return": float(shielded[0].mean()),
        "gain": float((shielded[0] - cautious[0]).mean()),
        "gain_interval": mean_interval(shielded[0] - cautious[0]),
    }


def copies(system: System, book: Book) -> gym.vector.SyncVectorEnv:
    """Copies of a system that enter their episodes into a book."""
    return gym.vector.SyncVectorEnv([lambda: Ledger(system.make(), system.reading, book)] * COPIES)


def recorded(system: System, rng: np.random.Generator) -> Log:
    """Log of the cautious controller with noise on its actions; the backup drives once in every episode."""
    env, rows = system.make(), []
    for episode in range(system.log_episodes):
        now, _ = env.reset(seed=int(rng.integers(2**31)))
        begin = rng.integers(system.horizon, 3 * system.horizon)
        count, ended = 0, False
        while not ended:
            backup = begin <= count <= begin + system.horizon
            action = np.asarray(system.backup(now[None]))[0] if backup else explored(system, env.action_space, now, rng)
            following, _, terminated, truncated, _ = env.step(action)
            rows.append((now, action, following, episode))
            now, ended, count = following, terminated or truncated, count + 1
    env.close()
    before, actions, after, episodes = map(np.array, zip(*rows, strict=True))
    return Log(before, actions, episodes=episodes, next_observations=after)


def explored(system: System, space: spaces.Space[Any], now: Array, rng: np.random.Generator) -> Any:
    """Action of the cautious controller with noise."""
    action = np.asarray(system.cautious(now[None]))[0]
    if isinstance(space, spaces.Box):
        spread = system.noise * (space.high - space.low) / 2
        return np.clip(action + spread * rng.standard_normal(space.shape), space.low, space.high).astype(space.dtype)
    assert isinstance(space, spaces.Discrete), "the doctor examines boxes and discrete actions"
    return rng.integers(space.n) if rng.random() < system.noise else action


def driven(system: System, controller: Controller) -> tuple[Array, Array]:
    """Returns, and whether they violated, of the audited episodes under a controller alone."""
    book = Book()
    env = Ledger(system.make(), system.reading, book)
    for k in range(AUDITED):
        now, _ = env.reset(seed=FIRST_SEED + k)
        ended = False
        while not ended:
            now, _, terminated, truncated, _ = env.step(np.asarray(controller(now[None]))[0])
            ended = terminated or truncated
    env.close()
    return np.array([one.total for one in book.entries]), np.array([one.violated for one in book.entries])


def audited(agent: MASE, book: Book, shielded: bool) -> tuple[Array, Array]:
    """Returns, and whether they violated, of the audited episodes under the trained policy without exploration."""
    agent.evaluate(shielded)
    totals, violated = [], []
    for first in range(FIRST_SEED, FIRST_SEED + AUDITED, COPIES):
        before = len(book.entries)
        first_episodes(Subject("field", "mase", agent), first)
        entries = book.entries[before : before + COPIES]
        totals += [one.total for one in entries]
        violated += [one.violated for one in entries]
    return np.array(totals), np.array(violated)


def bare_learner(system: System, seed: int, steps: int) -> tuple[Array, Array, int]:
    """The same learner without log, shield and penalty: audited episodes, and the number violated in training."""
    book = Book()
    agent = MASE(
        copies(system, book),
        system.limits,
        Calibrated(Rollout(), delta=DELTA),
        TRPO,
        learner_options=LEARNING,
        penalty=None,
        backup=Backup(system.backup, system.horizon, drills=0.0),
        shielding=False,
        seed=seed,
    )
    agent.learn(steps)
    violated = sum(entry.violated for entry in book.begun())
    return *audited(agent, book, False), violated


def mean_interval(values: Array, confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean."""
    half = student.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)

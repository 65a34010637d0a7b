"""Overhead of the safety layer, as ratios measured in one run: `make bench`."""

from __future__ import annotations

import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import scipy.linalg
import torch
from rich.console import Console
from rich.table import Table
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import safexp
from safexp.backups.penalty import Penalty
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.quantifiers import Transitions
from safexp.quantifiers.gp.kernels import covariance
from safexp.shield.candidates import Glance
from safexp.tasks import planar_robot

REPEATS = 5


def best(action: Callable[[], object]) -> float:
    """Shortest of a few timings, in seconds: the one least disturbed by other processes."""
    return min(_timed(action) for _ in range(REPEATS))


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def stepping(table: Table, num_envs: int = 32, steps: int = 200) -> None:
    """Vector steps with and without the guard, and one by one."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, 2)).astype(np.float32)

    def run(venv):
        venv.reset()
        return lambda: [venv.step(row) for row in actions]

    def batched():
        return as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=num_envs))

    def guarded(constraint, quantifier):
        venv = batched()
        shield = safexp.Shield(quantifier, venv.observation_space, venv.action_space)
        return Guard(venv, constraint, shield, Penalty())

    rng = np.random.default_rng(0)
    gp = safexp.ExactGP([0.3, 0.3, 3, 3, 6, 6], norm_bound=1.5, novelty=3e-3)
    gp_guard = guarded(safexp.Instantaneous(0.3), gp)
    gp_guard.shield.fit(planar_robot.cautious_log(30, rng))
    base = best(run(batched()))
    rows = {
        "environments alone, batched": base,
        "one by one (DummyVecEnv)": best(run(DummyVecEnv([planar_robot.PlanarRobot for _ in range(num_envs)]))),
        "guarded, Budget, Unknown": best(run(guarded(safexp.Budget(3.0), safexp.Unknown()))),
        "guarded, Instantaneous, Known": best(
            run(guarded(safexp.Instantaneous(0.3), safexp.Known(planar_robot.cost_of)))
        ),
        f"guarded, Instantaneous, ExactGP ({gp.size} points)": best(run(gp_guard)),
    }
    for name, seconds in rows.items():
        table.add_row(name, f"{1e6 * seconds / steps / num_envs:.1f} µs a step", f"{seconds / base:.2f} × the first")


class Timed:
    """Wrapper that adds up the time of a quantifier's predictions, in processor time of this thread."""

    def __init__(self, quantifier: safexp.Quantifier) -> None:
        self.spent = 0.0
        self._predict = quantifier.predict
        quantifier.predict = self

    def __call__(self, states, actions):
        start = time.thread_time()
        answer = self._predict(states, actions)
        self.spent += time.thread_time() - start
        return answer


def overhead(table: Table, num_envs: int = 64, steps: int = 100) -> None:
    """Guarded step without the task's own time and the quantifier's predictions, in processor time."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, 2)).astype(np.float32)
    log = planar_robot.cautious_log(30, np.random.default_rng(0))

    def python_time(envs, timed=None):
        def once():
            before = timed.spent if timed else 0.0
            start = time.thread_time()
            for row in actions:
                envs.step(row)
            return time.thread_time() - start - (timed.spent - before if timed else 0.0)

        return 1e6 * min(once() for _ in range(REPEATS)) / steps

    alone = gym.make_vec("safexp/PlanarRobot-v0", num_envs=num_envs)
    alone.reset(seed=0)
    base = python_time(alone)
    for name, constraint, quantifier in (
        ("Budget, Unknown", safexp.Budget(3.0), safexp.Unknown()),
        ("Instantaneous, SparseGP", safexp.Instantaneous(0.3), safexp.SparseGP(seed=0)),
    ):
        venv = as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=num_envs))
        guard = Guard(venv, constraint, safexp.Shield(quantifier, venv.observation_space, venv.action_space), Penalty())
        guard.shield.fit(log)
        guard.seed(0)
        guard.reset()
        spent = python_time(guard, Timed(quantifier)) - base
        table.add_row(f"overhead of a guarded step of {num_envs}, {name}", f"{spent:.0f} µs", f"{base:.0f} µs alone")


class Everything(safexp.Shield):
    """Shield that queries all candidates of every next state."""

    def glance(self, question, last_safe=None):
        return Glance.of_all(self.outlook(question.observations, question.limits, last_safe=last_safe))


def staging(table: Table, num_envs: int = 64, steps: int = 100) -> None:
    """Guarded step that queries few candidates first, compared with one that queries all."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, 2)).astype(np.float32)
    log = planar_robot.cautious_log(30, np.random.default_rng(0))

    def run(kind):
        venv = as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=num_envs))
        gp = safexp.ExactGP([0.3, 0.3, 3, 3, 6, 6], norm_bound=1.5, novelty=3e-3)
        guard = Guard(venv, safexp.Instantaneous(0.3), kind(gp, venv.observation_space, venv.action_space), Penalty())
        guard.shield.fit(log)
        guard.seed(0)
        guard.reset()
        return lambda: [guard.step(row) for row in actions]

    whole, staged = best(run(Everything)), best(run(safexp.Shield))
    table.add_row(f"guarded step of {num_envs}, ExactGP, all candidates", f"{1e3 * whole / steps:.1f} ms", "")
    table.add_row(
        f"guarded step of {num_envs}, ExactGP, in stages", f"{1e3 * staged / steps:.1f} ms", f"{whole / staged:.1f} ×"
    )


class Slow(safexp.Unknown):
    """Quantifier that takes 90 µs and certifies everything."""

    def predict(self, states, actions):
        end = time.perf_counter() + 90e-6
        answer = np.full(actions.shape[:2], 0.1), np.full(actions.shape[:2], 0.05)
        while time.perf_counter() < end:
            pass
        return answer


def filtering(table: Table, calls: int = 3000) -> None:
    """`Shield.filter` on one state of 60 numbers with a quantifier of 90 µs."""
    box = gym.spaces.Box(-1.0, 1.0, (60,), np.float64)
    shield = safexp.Shield(Slow(), box, gym.spaces.Box(-1.0, 1.0, (2,), np.float32))
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (calls, 60)), rng.uniform(-1, 1, (calls, 2)).astype(np.float32)
    times = [
        _timed(lambda s=state, a=action: shield.filter(s, a, 0.5))
        for state, action in zip(states, actions, strict=True)
    ]
    median, slow = np.percentile(np.array(times) * 1e6, [50, 90])
    table.add_row("Shield.filter, quantifier of 90 µs", f"{median:.0f} µs (median)", f"90 % below {slow:.0f} µs")


def looking_ahead(table: Table, calls: int = 400, num_envs: int = 8, steps: int = 200) -> None:
    """Decisions of `Rollout` on the pendulum, 61 steps ahead, and guarded steps with it and without a backup."""
    known = gym.make("safexp/PendulumReach-v0").unwrapped.knowledge
    log, (controller, horizon) = known.log(np.random.default_rng(0)), known.backup
    limits = safexp.Within(["x", "angle"], low=[-0.3, -0.12], high=[0.3, 0.12])

    def guarded(quantifier, backup):
        venv = as_vec_env(gym.make_vec("safexp/PendulumReach-v0", num_envs=num_envs, vectorization_mode="sync"))
        shield = safexp.Shield(quantifier, venv.observation_space, venv.action_space, constraint=limits, backup=backup)
        shield.fit(log)
        guard = Guard(venv, limits, shield, Penalty(), backup=backup)
        guard.seed(0)
        guard.reset()
        return guard

    def stepped(guard):
        rng = np.random.default_rng(0)

        def once():
            start = time.thread_time()
            for _ in range(steps):
                cautious = controller(guard.observations) + 0.1 * rng.standard_normal((num_envs, 1))
                guard.step(cautious.astype(np.float32))
            return time.thread_time() - start

        return 1e6 * min(once() for _ in range(REPEATS)) / steps

    ahead = guarded(safexp.Calibrated(safexp.Rollout(reach=1.0)), safexp.Backup(controller, horizon))
    states = log.observations[:: len(log.observations) // calls][:calls]
    for name, actions in (("proposal certified", controller(states)), ("all candidates", np.full((calls, 1), 3.0))):
        times = []
        for state, action in zip(states, actions, strict=True):
            start = time.thread_time()
            ahead.shield.filter(state, action, measured=state[:2])
            times.append(time.thread_time() - start)
        table.add_row(f"Shield.filter, Rollout, {horizon + 1} steps, {name}", f"{1e6 * np.median(times):.0f} µs", "")
    one_step = guarded(safexp.ChangeModel(safexp.SparseGP(seed=0)), None)
    with_backup, without = stepped(ahead), stepped(one_step)
    table.add_row(f"guarded step of {num_envs} pendulums, ChangeModel(SparseGP), reset", f"{without:.0f} µs", "")
    table.add_row(
        f"guarded step of {num_envs} pendulums, Rollout, backup",
        f"{with_backup:.0f} µs",
        f"{with_backup / without:.2f} ×",
    )


def training(table: Table, steps: int = 8192) -> None:
    """A whole epoch of PPO with and without MASE, on the same number of steps."""

    def agent(shielding):
        env = gym.make_vec("safexp/PlanarRobot-v0", num_envs=16)
        options = {"n_steps": 128, "batch_size": 256}
        return safexp.MASE(
            env, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=options, seed=0, shielding=shielding
        )

    bare, mase = agent(False), agent(True)
    times = {"PPO": best(lambda: bare.learn(steps)), "MASE, Unknown, PPO": best(lambda: mase.learn(steps))}
    for name, seconds in times.items():
        table.add_row(name, f"{steps / seconds:,.0f} steps/s", f"{seconds / times['PPO']:.2f} × PPO's time")


def gaussian_process(table: Table, points: int = 500) -> None:
    """Growing the factor row by row, compared with a new factorisation for every row."""
    rng = np.random.default_rng(0)
    data = Transitions(rng.uniform(size=(points, 4)), rng.uniform(size=(points, 2)), rng.uniform(size=points))
    inputs = np.concatenate([data.states, data.actions], axis=1) / 0.1

    def grow():
        safexp.ExactGP(0.1, novelty=0.0).fit(data)

    def anew():
        for n in range(1, points + 1):
            scipy.linalg.cholesky(covariance("rbf", inputs[:n], inputs[:n]) + 1e-6 * np.eye(n))

    grown, refactored = _timed(grow), _timed(anew)
    table.add_row(f"ExactGP, {points} points, incremental", f"{1e6 * grown / points:.0f} µs a point", "")
    table.add_row(
        "factorised anew each time", f"{1e6 * refactored / points:.0f} µs a point", f"{refactored / grown:.1f} ×"
    )


def main() -> None:
    torch.set_num_threads(1)
    table = Table("what", "measured", "ratio", title="Overhead of safety (ratios within this run)")
    stepping(table)
    overhead(table)
    staging(table)
    filtering(table)
    looking_ahead(table)
    training(table)
    gaussian_process(table)
    Console().print(table)


if __name__ == "__main__":
    main()

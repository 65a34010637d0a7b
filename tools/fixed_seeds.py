"""Short runs with fixed seeds through the command line, to check that a change of the code does not alter results.

    python tools/fixed_seeds.py record before      # with the code as it was
    python tools/fixed_seeds.py record after       # with the code as it is
    python tools/fixed_seeds.py compare before after

Compared are the files that must be identical byte for byte on one machine: metrics.jsonl, episodes.csv,
trajectories.json.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SAFEXP = str(Path(sys.executable).parent / "safexp")
COMPARED = ("metrics.jsonl", "episodes.csv", "trajectories.json")

PPO = {"learner-options": {"n_steps": 64, "batch_size": 128, "n_epochs": 2}, "num-envs": 16, "steps": 4096}
GOAL = {"task": "safexp/PointGoalStatic-v0", "budget": 20, "num-envs": 20, "steps": 20_000}
GOAL |= {"learner-options": {"n_steps": 100}}
OFF_POLICY = {"num-envs": 4, "steps": 3000, "method-options": {"epoch_steps": 500}, "largest-penalty": 3}
RUNS = {
    "mase-unknown": PPO,
    "mase-known-instantaneous": {**PPO, "quantifier": "known", "constraint": "instantaneous", "limit": 0.3},
    "mase-exact-gp": {**PPO, "quantifier": "exact-gp", "constraint": "instantaneous", "limit": 0.3},
    "mase-sparse-gp": {**PPO, "quantifier": "sparse-gp"},
    "mase-sparse-gp-instantaneous": {**PPO, "quantifier": "sparse-gp", "constraint": "instantaneous", "limit": 0.3},
    "mase-calibrated": {**PPO, "quantifier": "sparse-gp", "calibrate": True},
    "mase-maskable": {**PPO, "task": "safexp/PlanarRobotDiscrete-v0", "learner": "MaskablePPO"},
    "mase-margin": {**PPO, "constraint": "margin", "quantifier": "sparse-gp"},
    "mase-goal": {**GOAL, "learner": "TRPO"},
    "mase-schedule": {**PPO, "constraint": "schedule", "schedule": {"0": 0.5, "20": 0.3}, "quantifier": "exact-gp"},
    "bare": {**PPO, "method": "bare"},
    "trpo": {**GOAL, "method": "trpo"},
    "trpo-lagrangian": {**GOAL, "method": "trpo-lagrangian"},
    "cpo": {**GOAL, "method": "cpo"},
    "saute": {**GOAL, "learner": "TRPO", "method": "saute"},
    "early-termination": {**PPO, "method": "early-termination"},
    "mase-sac": {**OFF_POLICY, "learner": "SAC", "quantifier": "exact-gp", "constraint": "instantaneous", "limit": 0.3},
    "mase-sac-unknown": {**OFF_POLICY, "learner": "SAC"},
    "mase-dqn": {**OFF_POLICY, "learner": "DQN", "task": "safexp/PlanarRobotDiscrete-v0", "quantifier": "exact-gp"},
    "mase-fallback": {**GOAL, "learner": "TRPO", "backup": "fallback"},
    "mase-learned-reset": {
        **GOAL,
        "learner": "TRPO",
        "backup": "learned-reset",
        "backup-options": {"gradient_steps": 20},
    },
}


def words(options: dict[str, object], out: Path) -> list[str]:
    """Options of a command, as a shell would pass them."""
    found = ["--out", str(out)]
    for name, value in options.items():
        found += (
            [f"--{name}"] if value is True else [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        )
    return found


def safexp(*command: str) -> None:
    """Run a safexp command to its end."""
    done = subprocess.run([SAFEXP, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"safexp {' '.join(command)} ended with {done.returncode}: {done.stderr}")


def interrupt(options: dict[str, object], out: Path) -> None:
    """Start a run, and end it with SIGTERM after its second epoch."""
    process = subprocess.Popen([SAFEXP, "train", *words(options, out)], stdout=subprocess.DEVNULL)
    metrics = out / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.wait()


def record(folder: Path) -> None:
    """Train all runs, each in its own folder inside this one, which is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, options in RUNS.items():
        print(name, flush=True)
        safexp("train", *words(options, folder / name))
    for name in ("mase-exact-gp", "trpo", "mase-learned-reset", "mase-dqn"):
        print(f"{name}, interrupted, resumed", flush=True)
        interrupt(RUNS[name], folder / f"{name}-resumed")
        safexp("train", "--resume", *words(RUNS[name], folder / f"{name}-resumed"))
    print("mase-unknown, extended", flush=True)
    for steps in (2048, 4096):
        options = {**PPO, "steps": steps, "resume": True}
        safexp("train", *words(options, folder / "mase-unknown-extended"))
    print("a sweep", flush=True)
    vary = {"method": ["mase", "bare"]}
    safexp("sweep", *words({**PPO, "vary": vary, "seeds": 2, "steps": 2048}, folder / "sweep"))


def results(folder: Path) -> dict[str, bytes]:
    """Files to compare, by their paths within a folder of recordings."""
    found = (path for name in COMPARED for path in folder.rglob(name))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def compare(before: Path, after: Path) -> int:
    """Print the files that differ; returns their number."""
    old, new = results(before), results(after)
    differing = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    print("\n".join([*differing, f"{len(differing)} of {len(old.keys() | new.keys())} files differ."]))
    return len(differing) if old else 1


def main() -> int:
    match sys.argv[1:]:
        case ["record", folder]:
            record(Path(folder))
            return 0
        case ["compare", before, after]:
            return int(compare(Path(before), Path(after)) > 0)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())

# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # A shield around an existing controller, and its deployment
#
# An oven is controlled by a PI controller that overshoots. The oven must not exceed 200 °C. We learn a shield from a log, put it around the controller,
# break things on purpose, and export it to C. There is no reinforcement learning here, and plain `safexp` is enough (matplotlib draws).

# %%
import re
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import safexp

LIMIT, WANTED = 200.0, 190.0
seen_space = gym.spaces.Box(0.0, 400.0, (1,), np.float64)  # temperature
power_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)  # share of full power


def oven(temperature, power):
    return temperature + 30.0 * power - 0.08 * (temperature - 20.0)


class PI:
    """An ordinary controller, tuned for speed: its integral winds up while the oven heats."""

    def __init__(self):
        self.total = 0.0

    def __call__(self, seen):
        error = WANTED - seen[0]
        self.total += error
        return np.clip([0.02 * error + 0.003 * self.total], 0.0, 1.0)


# %% [markdown]
# ## Learn the shield from a log

# %%
rng, rows = np.random.default_rng(0), []
for episode in range(60):
    temperature = rng.uniform(20, 120)
    for _ in range(40):
        power = rng.uniform(0, 1) if temperature < 180 else 0.0  # what careful operators did
        following = oven(temperature, power) + rng.normal(0, 0.1)
        rows.append((temperature, power, following, episode))
        temperature = following
before, power, after, episodes = np.array(rows).T
log = safexp.Log(before[:, None], power[:, None], episodes=episodes.astype(int), next_observations=after[:, None])

limit = safexp.Within(0, high=LIMIT)
certificate = safexp.Calibrated(safexp.ChangeModel(safexp.FeatureRegression(num_features=64)))
shield = safexp.Shield(certificate, seen_space, power_space, constraint=limit)
shield.fit(log)
shield.save("oven.safexp")

# %% [markdown]
# ## The control loop
#
# `ShieldedPolicy` keeps the constraint's account, has a deadline, and always answers. The *fallback* is the one action for all emergencies, here
# "no power"; you are responsible for it, because it must be available even without an observation. The limited signal is
# an entry of the observation, so `act` reads it there; costs and other signals are reported by `policy.observe(value)` after the step.


# %%
def control(shielded, steps=80):
    controller, temperature, history = PI(), 20.0, []
    policy = None
    if shielded:
        loaded = safexp.Shield.load("oven.safexp")
        policy = safexp.ShieldedPolicy(controller, loaded, limit, fallback=[0.0], deadline=0.5)
        policy.reset(np.array([temperature]))
    for _ in range(steps):
        seen = np.array([temperature])
        action = policy.act(seen).action if policy else controller(seen)
        temperature = oven(temperature, float(action[0]))
        history.append(temperature)
    return history, policy


alone, _ = control(shielded=False)
guarded, policy = control(shielded=True)
print(f"alone: up to {max(alone):.1f} °C; behind the shield: up to {max(guarded):.1f} °C")
print({kind: count for kind, count in policy.counts.items() if count})

figure, axis = plt.subplots(figsize=(7, 3.2))
axis.plot(alone, color="tab:red", label="PI controller")
axis.plot(guarded, color="tab:blue", label="behind the shield")
axis.axhline(LIMIT, color="black", linewidth=0.8, linestyle="--")
axis.axhline(WANTED, color="black", linewidth=0.8, linestyle=":")
axis.text(80, LIMIT + 2, "limit", ha="right")
axis.text(80, WANTED - 13, "wanted", ha="right")
axis.set(xlabel="step", ylabel="temperature / °C")
axis.legend(frameon=False, loc="lower center")
figure.tight_layout()

# %% [markdown]
# ## Break it on purpose
#
# A sensor that fails, or a controller that computes nonsense, must not end in an exception inside of a control loop:

# %%
policy.reset(np.array([150.0]))
print("sensor broken:   ", policy.act(np.array([np.nan])).outcome)
policy.reset(np.array([150.0]))
nonsense = safexp.ShieldedPolicy(lambda seen: np.array([np.nan]), shield, limit, fallback=[0.0])
nonsense.reset(np.array([150.0]))
print("controller broken:", nonsense.act(np.array([150.0])).outcome)

# %% [markdown]
# ## Without Python
#
# The same shield as one C file, without dependencies or allocation, for a microcontroller or a ROS 2 node:

# %%
shield.export_c("oven.c")
header = Path("oven.h").read_text()
print("functions:", *sorted(set(re.findall(r"\boven_\w+(?=\()", header))))

# %% [markdown]
# `CompiledShield` builds that code with the system's C compiler and calls it from Python. It takes the same decisions:

# %%
fast = safexp.CompiledShield(shield)
questions = rng.uniform(150, 200, (200, 1))
proposals = rng.uniform(0, 1, (200, 1))
here = shield.filter_batch(questions, proposals, np.full((200, 1), 0.5))
there = fast.filter_batch(questions, proposals, np.full((200, 1), 0.5))
print(f"{here.intervened.sum()} of 200 replaced; decisions that differ: {(here.intervened != there.intervened).sum()}")

# %% [markdown]
# ## What to try next
#
# - Run the loop in C: `examples/controller/` has one, with a ROS 2 node ([shields in C](../how-to/c-export.md)).
# - Set `deadline=1e-6`: every answer is late, and the oven stays cold.
# - Give the account something to do: limit an energy budget with `safexp.Budget` as well, joined by `safexp.AllOf`.
# - [Deploy a shield](../how-to/deployment.md) lists all outcomes, and what the deadline does and does not guarantee.

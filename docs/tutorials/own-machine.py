# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # Your own machine from a log
#
# You have a machine, a controller that is safe but slow, and a log of it. You want to run a faster controller without ever crossing a limit.
# The machine here is a DC motor: its current must stay within ± 10 A. It is simulated in a few lines; with your own machine, start at the log.

# %%
import csv

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import safexp

LIMIT = 10.0


class Motor(gym.Env):
    """Observes current, speed and wanted speed; the action is the voltage, as a share of 24 V."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.current, self.speed, self.steps = 0.0, 0.0, 0
        self.wanted = self.np_random.uniform(-100, 100)
        return self.observe(), {}

    def step(self, action):
        voltage = 24.0 * float(action[0])
        self.current += 1e-3 / 2e-3 * (voltage - 1.0 * self.current - 0.1 * self.speed)
        self.speed += 1e-3 / 2e-4 * (0.1 * self.current - 1e-4 * self.speed)
        self.steps += 1
        if self.steps % 40 == 0:
            self.wanted = self.np_random.uniform(-100, 100)
        reward = -abs(self.wanted - self.speed) / 100
        return self.observe(), reward, False, self.steps == 120, {}

    def observe(self):
        return np.array([self.current, self.speed, self.wanted])


def cautious(seen):  # (n, 3): feeds forward, and adds a little voltage
    return np.clip(0.1 * seen[:, 1:2] + 0.12 * (seen[:, 2:] - seen[:, 1:2]).clip(-50, 50), -24, 24) / 24


def fast(seen):  # knows nothing of the current
    return np.clip(2.0 * (seen[:, 2:] - seen[:, 1:2]), -24, 24) / 24


# %% [markdown]
# ## The log
#
# A CSV file with one row for each step: `s0, s1, …` before the step, `a0` the action, `n0, n1, …` after it, and `episode`. Some noise on the
# actions is what lets a model tell the effect of the voltage from that of everything else.

# %%
rng, env = np.random.default_rng(0), Motor()
with open("motor.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["s0", "s1", "s2", "a0", "n0", "n1", "n2", "episode"])
    for episode in range(60):
        seen, _ = env.reset(seed=episode)
        ended = False
        while not ended:
            action = np.clip(cautious(seen[None])[0] + rng.normal(0, 0.05, 1), -1, 1)
            following, _, _, ended, _ = env.step(action)
            rows.writerow([*seen, *action, *following, episode])
            seen = following
log = safexp.read_log("motor.csv")
print(len(log.actions), "rows; largest current", np.abs(log.observations[:, 0]).max().round(1), "A")

# %% [markdown]
# ## Is the log good enough?
#
# `examine` (on the command line `safexp doctor motor.csv --within 0:-10:10`) checks the log and recommends a shield. The limit is on the *signed*
# current, from both sides; a limit on its absolute value has a kink that a model extrapolates through.

# %%
constraint = safexp.Within(0, low=-LIMIT, high=LIMIT)
found = safexp.examine(
    log, constraint=constraint, action_space=env.action_space, resets=True, quantifiers=["FeatureRegression"]
)
print(found.verdict)
for finding in found.findings:
    if finding.severity != "ok":
        print("-", finding.severity, finding.topic)
print(next(line for line in found.lines.splitlines() if line.startswith("quantifier")))

# %% [markdown]
# ## The shield, and a rehearsal
#
# The lines that it prints build the shield. A good static check is not enough: a fast controller goes where the log was not. So rehearse it in a
# closed loop, on the simulator or with an independent safeguard. Where nothing is certified the cautious controller drives.

# %%
quantifier = safexp.Calibrated(safexp.ChangeModel(safexp.FeatureRegression(delta=0.05), inputs=(1, 3)), delta=0.05)
shield = safexp.Shield(quantifier, env.observation_space, env.action_space, constraint=constraint)
shield.fit(log)
rehearsal = shield.rehearse(env, fast, episodes=20, backup=cautious, seed=1000)
print(f"{rehearsal.violated} of {rehearsal.episodes} episodes over the limit")
print(
    f"{rehearsal.interventions} of {rehearsal.steps} actions replaced, {rehearsal.stopped} by the cautious controller"
)


# %%
def drive(controller, guarded):
    seen, _ = env.reset(seed=1000)
    currents, speeds, wanted = [], [], []
    for _ in range(120):
        action = controller(seen[None])[0]
        if guarded:
            decision = shield.filter(seen, action)
            action = cautious(seen[None])[0] if decision.stopped else decision.action
        wanted.append(seen[2])
        seen, *_ = env.step(action)
        currents.append(seen[0])
        speeds.append(seen[1])
    return currents, speeds, wanted


figure, (above, below) = plt.subplots(2, 1, figsize=(8, 5), sharex=True)
runs = {"cautious": (cautious, False), "fast": (fast, False), "fast, behind the shield": (fast, True)}
for (name, how), colour in zip(runs.items(), ("tab:gray", "tab:red", "tab:blue"), strict=True):
    currents, speeds, wanted = drive(*how)
    above.plot(currents, label=name, color=colour, linewidth=1.3)
    below.plot(speeds, color=colour, linewidth=1.3)
below.plot(wanted, "k:", linewidth=1, label="wanted")
for side in (-LIMIT, LIMIT):
    above.axhline(side, color="black", linewidth=0.8, linestyle="--")
above.set(ylabel="current / A")
below.set(ylabel="speed / rad/s", xlabel="step of 1 ms")
above.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
below.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## What to try next
#
# - Halve the number of logged episodes, or remove the noise from the actions, and `examine` again: it says what is missing.
# - Replace the signed current by its absolute value, and see what `examine` makes of it ([is my log good enough?](../how-to/doctor.md)).
# - Train a policy behind this shield: `safexp.MASE(envs, constraint, quantifier, PPO, seed_data="motor.csv", seed_controller=cautious)`.
# - [Deploy it](deployment.md).

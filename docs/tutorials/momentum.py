# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # A backup for something with momentum
#
# A cart must stay within 1 m of the middle of its track. It can be safe now, safe after the next step, and still beyond rescue: too fast to stop before
# the wall. A certificate that looks one step ahead cannot see that. One that looks ahead to a *backup*, here a brake, can.

# %%
import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import safexp

STEP = 0.1


class Cart(gym.Env):
    """Observes place and speed; the action is the force."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = np.array([self.np_random.uniform(-0.2, 0.2), 0.0]), 0
        return self.state.copy(), {}

    def step(self, action):
        speed = self.state[1] + STEP * float(action[0])
        self.state = np.array([self.state[0] + STEP * speed, speed])
        self.steps += 1
        return self.state.copy(), float(self.state[0]), False, self.steps == 80, {}


def brake(seen):  # (n, 2): against the speed
    return np.clip(-5.0 * seen[:, 1:], -1.0, 1.0)


def eager(seen):  # as far to the right as it can
    return np.ones((len(seen), 1))


def towards(place, aim):
    return 0.8 * (aim - place[0]) - 1.2 * place[1]


# %% [markdown]
# ## A log
#
# A careful driver goes to and fro between ± 0.5 m, and now and then lets the brake bring the cart to rest: a certificate can only look ahead to
# a backup that the log shows.

# %%
rng, env = np.random.default_rng(0), Cart()
rows = []
for episode in range(70):
    seen, _ = env.reset(seed=episode)
    for step in range(80):
        aim = 0.5 * np.sign(np.sin(step / 10 + episode))
        action = np.clip([towards(seen, aim) + 0.3 * rng.normal()], -1, 1)
        if step % 40 > 25:
            action = brake(seen[None])[0]
        following, *_ = env.step(action)
        rows.append((seen, action, following, episode))
        seen = following
before, actions, after, episodes = (np.array(part) for part in zip(*rows, strict=True))
log = safexp.Log(before, actions, episodes=episodes, next_observations=after)
print(len(actions), "steps; furthest from the middle", np.abs(after[:, 0]).max().round(2), "m")

# %% [markdown]
# ## Two shields
#
# Both get the same limits and the same log. `ChangeModel` predicts the next step. `Rollout` learns how the state changes and rolls that out: the action, then
# the brake for 20 steps, with a width that grows along the path. `Calibrated` scales the widths on held-out stretches of the log; `wrap` and `MASE` require that
# under a limit on every step.

# %%
limits = safexp.Within(0, low=-1.0, high=1.0)
spaces = env.observation_space, env.action_space
one_step = safexp.Shield(safexp.ChangeModel(safexp.FeatureRegression()), *spaces, constraint=limits)
brakes = safexp.Backup(brake, horizon=20)
ahead = safexp.Shield(safexp.Calibrated(safexp.Rollout()), *spaces, constraint=limits, backup=brakes)
one_step.fit(log)
ahead.fit(log)


def drive(shield, steps=40):
    seen, _ = env.reset(seed=1000)
    places, drivers = [seen[0]], []
    for _ in range(steps):
        action, driver = eager(seen[None])[0], "proposal"
        if shield is not None:
            decision = shield.filter(seen, action)
            driver = "backup" if decision.stopped or decision.takeover else "shield" if decision.intervened else driver
            action = brake(seen[None])[0] if decision.stopped else decision.action
        seen, *_ = env.step(action)
        places.append(seen[0])
        drivers.append(driver)
    return places, drivers


figure, axis = plt.subplots(figsize=(7, 3.6))
runs = {"no shield": None, "one step ahead": one_step, "ahead to the brake": ahead}
for (name, shield), colour in zip(runs.items(), ("tab:gray", "tab:red", "tab:blue"), strict=True):
    places, drivers = drive(shield)
    axis.plot(places, label=name, color=colour)
    counts = {kind: drivers.count(kind) for kind in ("proposal", "shield", "backup")}
    print(f"{name}: furthest {max(places):.2f} m, {counts}")
axis.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
axis.set(xlabel="step", ylabel="place / m", ylim=(-0.2, 2.0))
axis.legend(frameon=False, loc="lower right")
figure.tight_layout()

# %% [markdown]
# One step ahead, the cart is refused only when it is already too fast: it brakes, and slides past the limit. The shield that looks ahead
# replaces the proposal in time, and the cart comes to rest before the wall: at a distance, because the model has not seen that place.
#
# ## How sure is it?
#
# A rehearsal counts violations of whole episodes in a closed loop, with an exact interval:

# %%
found = ahead.rehearse(env, eager, episodes=40, seed=2000)
print(f"{found.violated} of {found.episodes} violated; with 95% confidence at most {found.high:.1%} of episodes miss")

# %% [markdown]
# ## What to try next
#
# - Set the horizon to 3: the brake is not at rest by then, and the certificate promises too much. [Which backup?](../how-to/backups.md) says how to choose it.
# - Train behind it: `safexp.MASE(..., seed_data=log, backup=safexp.Backup(brake, horizon=20))`. No episode has to be stopped; drills check
#   the certificates on the policy's own states.
# - Among obstacles in the plane: [robots among obstacles](../how-to/obstacles.md).

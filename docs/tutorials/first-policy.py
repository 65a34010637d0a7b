# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # A first safe policy
#
# A robot learns to reach a goal behind two hills. A step costs the height of the ground it reaches, between 0 and 1, and the costs of an
# episode may add up to at most 3: on average over training is not enough, *every* episode must keep it. We train PPO twice, once alone and once
# behind a shield, and compare what it cost to learn. You need `safexp[train,report]`; it takes half a minute.

# %%
import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import PPO

import safexp

budget = safexp.Budget(3.0)
options = {"n_steps": 64, "batch_size": 256, "n_epochs": 5, "learning_rate": 1e-3}


def train(shielding):
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=16)
    agent = safexp.MASE(
        envs,
        budget,
        safexp.Unknown(),
        PPO,
        learner_options=options,
        penalty=safexp.Penalty(0.3),
        shielding=shielding,
        seed=0,
    )
    return agent.learn(16_000)


alone, shielded = train(shielding=False), train(shielding=True)
for name, agent in (("PPO alone", alone), ("behind a shield", shielded)):
    print(f"{name}: {agent.violations} of {len(agent.episodes)} episodes violated the budget")

# %% [markdown]
# Four parts meet in `MASE`: environments, a *constraint* (`Budget`), a *quantifier*, which bounds the cost of the next step, and a learner.
# `Unknown` is the simplest quantifier. It knows only that a step costs at most 1, so the shield ends an episode as soon as less than 1 of the budget
# remains. That needs no model and cannot go wrong. The learner gets a penalty for such a stop and learns to avoid it.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for axis, name, agent in zip(axes, ("PPO alone", "behind a shield"), (alone, shielded), strict=True):
    costs = [episode.cost for episode in agent.episodes]
    stopped = [episode.stopped for episode in agent.episodes]
    axis.scatter(range(len(costs)), costs, s=6, c=np.where(stopped, "tab:orange", "tab:blue"))
    axis.axhline(3, color="tab:red", linewidth=1)
    axis.set_yscale("symlog", linthresh=4)
    axis.set_yticks([0, 1, 2, 3, 10, 50], labels=["0", "1", "2", "3", "10", "50"])
    axis.set(title=name, xlabel="episode")
axes[0].set_ylabel("cost of the episode")
axes[1].text(0, 3.3, "budget", color="tab:red")
figure.tight_layout()

# %% [markdown]
# Every dot is an episode of training; orange ones were stopped. (Above 4 the axis is logarithmic.) The policy that learned alone is well above the red line for most of its
# training. Behind the shield no episode crosses it, from the first one on.
#
# ## Using the policy
#
# `predict` returns a decision of the shield about the policy's proposal. It needs the *threshold*, which is what is left of the budget:

# %%
start = np.array([-1.0, 0.0, 0.0, 0.0])
for left in (3.0, 0.5):
    decision = shielded.predict(start, threshold=left)
    print(f"{left} left:", "stop" if decision.stopped else f"run {decision.action.round(2)}")

shielded.save("robot.safexp")
same = safexp.MASE.load("robot.safexp")
print("the same decision after loading:", same.predict(start, threshold=3.0).action.round(2))

# %% [markdown]
# ## What to try next
#
# - Let a model replace `Unknown`: `safexp.Instantaneous(0.3)` with `ExactGP` limits every single step
#   ([which quantifier?](../how-to/quantifiers.md)).
# - Train for 60,000 steps: stops become rare, and the return reaches 2.8.
# - Use your own environment: [what it must report](../how-to/environment.md), then `safexp.check_env`.
# - [A backup for something with momentum](momentum.md), where ending the episode is not enough.

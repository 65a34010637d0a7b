# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # The paper in an hour
#
# *Safe Exploration in Reinforcement Learning: A Generalized Formulation and Algorithms* has three ideas. This tutorial runs each of them on a small
# setting, and then reads the results of the full one. Run it in the root of a clone; everything here takes half a minute, and the full runs are commands at the end.
#
# ## 1. One problem for all
#
# Five formulations of safe reinforcement learning become one: at step h, the next cost must be at most a *threshold* b_h (the GSE problem). A constraint is
# nothing but a rule for b_h:

# %%
import csv

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import safexp

costs = [0.5, 0.5, 0.0, 1.0, 0.5, 0.0]
constraints = {
    "budget of 3": safexp.Budget(3.0),
    "discounted budget": safexp.Budget(3.0, discount=0.9),
    "every cost ≤ 0.6": safexp.Instantaneous(0.6),
    "schedule": safexp.Schedule(safexp.gate(6, period=4, open_for=2)),
}
figure, axis = plt.subplots(figsize=(7, 3))
for name, constraint in constraints.items():
    state = constraint.start(np.zeros((1, 1)))
    thresholds = []
    for cost in costs:
        thresholds.append(float(constraint.threshold(state)[0]))
        state = constraint.update(state, np.array([cost]), np.array([1.0]))
    axis.step(range(6), thresholds, where="mid", label=name)
axis.bar(range(6), costs, color="0.8", label="cost")
axis.set(xlabel="step h", ylabel="threshold b_h")
axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper right", bbox_to_anchor=(1, 1.02))
axis.set_ylim(0, 5)
figure.tight_layout()

# %% [markdown]
# ## 2. An uncertainty quantifier
#
# A quantifier predicts the cost as mean ± width, right for all states, actions and times at once with probability 1 − δ. The width that the paper gives for
# Gaussian processes is too narrow; `ExactGP` uses a corrected one ([errata](../explanation/errata.md)).

# %%
rng = np.random.default_rng(0)
states = rng.uniform(0, 0.6, (12, 1))
actions = np.zeros((12, 1))


def height(x):
    return 0.5 + 0.3 * np.sin(6 * x)


model = safexp.ExactGP(lengthscale=0.3, norm_bound=1.5)
model.fit(safexp.Transitions(states, actions, height(states[:, 0])))
grid = np.linspace(0, 1, 200)
mean, width = (part[:, 0] for part in model.predict(grid[:, None], np.zeros((200, 1, 1))))
figure, axis = plt.subplots(figsize=(7, 3))
axis.fill_between(grid, mean - width, mean + width, alpha=0.25, label="mean ± width")
axis.plot(grid, height(grid), "k", linewidth=1, label="true cost")
axis.plot(states[:, 0], height(states[:, 0]), "k.", label="data")
axis.axhline(0.7, color="tab:red", linewidth=1)
certified = mean + width <= 0.7
axis.fill_between(grid, 0, 0.04, where=certified, color="tab:green", label="certified")
axis.text(1.0, 0.72, "threshold", color="tab:red", ha="right")
axis.set(ylim=(0, 1.3), xlabel="state", ylabel="cost")
axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
figure.tight_layout()
print("certified and above the threshold:", int((certified & (height(grid) > 0.7)).sum()), "of", int(certified.sum()))

# %% [markdown]
# ## 3. MASE: an emergency stop, and a penalty
#
# Where no action is certified the episode is stopped *before* the violation, and the transition that led there is penalised. Any learner can then
# maximise that reward. The paper's task: a point robot reaches a goal past a hazard; at most 20 steps of an episode may be inside the hazard.

# %%
options = {"n_steps": 200, "target_kl": 0.02}


def train(shielding):
    envs = gym.make_vec("safexp/PointGoalStatic-v0", num_envs=20)
    agent = safexp.MASE(
        envs,
        safexp.Budget(20.0),
        safexp.Unknown(),
        safexp.TRPO,
        learner_options=options,
        penalty=safexp.Penalty(2.0),
        shielding=shielding,
        seed=0,
    )
    return agent.learn(40_000)


agents = {"TRPO": train(shielding=False), "MASE": train(shielding=True)}
figure, axis = plt.subplots(figsize=(7, 3))
for (name, agent), colour in zip(agents.items(), ("tab:red", "tab:blue"), strict=True):
    axis.plot([episode.cost for episode in agent.episodes], ".", markersize=3, color=colour, label=name)
    print(f"{name}: {agent.violations} violations in {len(agent.episodes)} episodes")
axis.axhline(20, color="black", linewidth=0.8, linestyle="--")
axis.set(xlabel="episode", ylabel="cost")
axis.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## The full results
#
# Five million steps and five seeds are in `results/safety-gym/`, with the command, settings and version of every run:

# %%
with open("results/safety-gym/comparison.csv", newline="") as file:
    for row in csv.DictReader(file):
        share = int(row["violated"]) / int(row["episodes"])
        print(
            f"{row['task']:6}{row['method']:16} {row['seeds']} seeds  return {float(row['returns']):.2f}  "
            f"violated {int(row['violated']):>6,} of {int(row['episodes']):,} ({share:.2%})"
        )

# %% [markdown]
# ## What to try next
#
# - `safexp reproduce safety-gym` runs this comparison; `safexp reproduce grid-world` and `safexp reproduce glm` the paper's others.
# - [MASE](../explanation/mase.md) explains the algorithm, [errata](../explanation/errata.md) lists what had to be corrected, and
#   [the comparison](../results/comparison.md) has the full tables.
# - Look ahead to a backup instead of stopping: [a backup for something with momentum](momentum.md).
# - Put your own quantifier, learner or task beside these: [my own parts by name](../how-to/extending.md).

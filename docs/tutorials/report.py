# ---
# jupyter: {jupytext: {text_representation: {extension: .py, format_name: percent}}}
# ---

# %% [markdown]
# # Reading a report and an audit
#
# Two questions decide whether a policy may run: what happened in training, and how often will it violate from now on? A *report* answers the first, an
# *audit* the second. We train two small runs, as `safexp train` does, and read both. You need `safexp[all]`.

# %%
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import safexp

options = {"n_steps": 64, "batch_size": 256, "n_epochs": 5, "learning_rate": 1e-3}
config = safexp.RunConfig(
    task="safexp/PlanarRobot-v0", learner="PPO", learner_options=options, limit=3.0, penalty=0.3, steps=16_000, seed=0
)
for settings in safexp.variations(config, {"method": ["bare", "mase"]}, seeds=1, out=Path("runs")):
    folder = safexp.run(settings)
    print(folder, sorted(path.name for path in folder.iterdir() if path.is_file()))

# %% [markdown]
# A run folder has everything: settings, one row for each episode, one line of metrics for each epoch, and the agent. `read_runs` returns the
# episodes of any number of runs as one data frame:

# %%
frame = safexp.read_runs("runs")
columns = ["true_return", "cost", "violated", "stopped", "interventions"]
print(frame.groupby("method")[columns].mean().round(2).to_string())

# %% [markdown]
# - `true_return` is the environment's own reward, without penalties: what the task is worth.
# - `violated` is judged from the true costs, by code that shares nothing with the shield. For `mase` anything above 0 is a failure, not noise.
# - `stopped` episodes ended before the budget could be exceeded. They are safe, and someone has to reset the machine.
# - `interventions` counts replaced actions. A policy whose every action is replaced has learned nothing: the shield drives.
#
# Means over all of training hide the trend. Look at the last episodes as well:

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3))
for method, group in frame.groupby("method"):
    for axis, column in zip(axes, ("true_return", "violated", "stopped"), strict=True):
        axis.plot(group[column].astype(float).rolling(40).mean().to_numpy(), label=method)
        axis.set(title=column, xlabel="episode")
axes[1].legend(frameon=False)
figure.suptitle("Mean over the last 40 episodes", fontsize=10)
figure.tight_layout()

# %% [markdown]
# ## The report
#
# `safexp report` puts this and more into one HTML page that opens anywhere, and prints the table:


# %%
def command(*words):
    program = Path(sys.executable).with_name("safexp")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    print(done.stdout.strip()[:2500])
    return done.returncode


command("report", "runs", "--out", "report.html")

# %% [markdown]
# Read it from the top: violations with their exact interval first, then the return of the last episodes, then stops. In the page, *coverage* shows how often the
# true cost was within the predicted interval, also near the limit, where it matters. (`Unknown` predicts nothing, so there is none here.)
#
# ## The audit
#
# No violation in training says little about tomorrow: the policy changed all the time. An audit plays fresh episodes with the finished policy and bounds
# the probability of a violation exactly. 300 episodes without one exclude a risk above 1% with 95% confidence.

# %%
code = command("audit", "runs/method=mase-0", "--episodes", "300", "--unshielded", "--out", "audit.html")
print("exit code", code)

# %% [markdown]
# - The **one-sided bound** is what counts; the exit code is 1 if it is above `--max-risk`, so a pipeline can depend on it.
# - The **anytime bound** also holds if someone watched and could have stopped when it looked good.
# - **Without the shield** shows whether the policy needs it: violations here mean that it relies on the shield.
# - **Inputs** outside the range of training are where the certificates know least. Here they are some of the inputs of a policy that moves faster than it
#   did while it explored; on a machine, find out which input it is before you rely on the numbers above.
#
# ## What to try next
#
# - Replay the worst episode by its seed: `safexp audit runs/method=mase-0 --replay SEED`.
# - Ask for more: `--episodes 3000 --max-risk 0.001`.
# - Five seeds instead of one: `safexp sweep`; the report groups them and draws bands ([read a report](../how-to/reports.md)).
# - Watch the agent: `safexp play runs/method=mase-0 --video robot.mp4`.

#!/usr/bin/env bash
# Goal1 steps per second: Safety-Gymnasium 1.0.0 and safexp in turns, each on one thread, in CPU seconds.
# Safety-Gymnasium does not install beside anything current, so it gets a throw-away environment with its pins
# lifted, and the four edits without which it fails on Python 3.11, NumPy 2 and MuJoCo 4.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export OMP_NUM_THREADS=1

python3 -m venv "$place/venv"
pip() { "$place/venv/bin/pip" --quiet --disable-pip-version-check "$@" 2> "$place/pip.log" || { cat "$place/pip.log"; exit 1; }; }
pip install mujoco==4.0.0 "numpy<3" xmltodict pyyaml imageio pygame jinja2 cloudpickle farama-notifications
pip install --no-deps gymnasium==0.28.1 jax-jumpy==1.0.0 gymnasium-robotics==1.2.2 pettingzoo==1.23.1
pip install --no-deps --target "$place/theirs" safety-gymnasium==1.0.0
cd "$place/theirs/safety_gymnasium"
grep -rlE "= (COLOR|GROUP)\[" assets | while read -r file; do
    sed -i -E "s/: np.array = ((COLOR|GROUP)\[[^]]*\])$/: object = field(default_factory=lambda: \1)/" "$file"
    sed -i -E "s/^from dataclasses import dataclass$/from dataclasses import dataclass, field/" "$file"
done
sed -i "s/joint_id = self.engine.model.sensor(sensor_id).objid$/joint_id = int(self.engine.model.sensor(sensor_id).objid[0])/" bases/base_agent.py
sed -i "s/np.array(action, copy=False)/np.asarray(action)/" bases/base_agent.py builder.py

cat > "$place/theirs.py" << 'PYTHON'
import sys, time, safety_gymnasium
env = safety_gymnasium.make(f"Safety{sys.argv[1]}Goal1-v0")
env.action_space.seed(0)
begin = time.process_time(); env.reset(seed=0); env.reset(seed=1); reset = (time.process_time() - begin) / 2
begin = time.process_time()
for _ in range(900):
    env.step(env.action_space.sample())
print(round(900 / (time.process_time() - begin)), round(1e6 * reset))
PYTHON
cat > "$place/ours.py" << 'PYTHON'
import sys, time, gymnasium, safexp.tasks
envs = gymnasium.make_vec(f"safexp/{sys.argv[1]}Goal1-v0", num_envs=64)
envs.action_space.seed(0); envs.reset(seed=0)
begin = time.process_time(); envs.reset(); reset = (time.process_time() - begin) / 64
begin = time.process_time()
for _ in range(300):
    envs.step(envs.action_space.sample())
print(round(300 * 64 / (time.process_time() - begin)), round(1e6 * reset))
PYTHON
echo "robot round: Safety-Gymnasium steps/s, µs/reset; safexp steps/s, µs/reset"
for robot in Point Car; do
    for round in 1 2 3; do
        theirs=$(PYTHONPATH="$place/theirs" "$place/venv/bin/python" "$place/theirs.py" $robot 2> "$place/log") ||
            { cat "$place/log"; exit 1; }
        ours=$("$python" "$place/ours.py" $robot)
        echo "$robot $round: $theirs; $ours"
    done
done

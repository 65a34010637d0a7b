"""How many steps after an action a signal still moves, where actions resemble the ones before."""

import numpy as np
import pytest

from safexp.doctor.delay import delay_findings, examine_delay
from support.hoist import hoist


def followed_targets(dead):
    """A level that an action moves `dead` steps later, while the controller pushes towards a target for long."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        level, target, pending = rng.uniform(-1, 1), rng.uniform(-2.5, 2.5), [0.0] * dead
        for _ in range(50):
            action = float(np.clip(0.3 * (target - level) + 0.2 * rng.normal(), -1, 1))
            pending.append(action)
            following = level + 0.3 * pending.pop(0) + 0.01 * rng.normal()
            rows.append((level, action, following, episode))
            level = following
    now, actions, after, episodes = map(np.array, zip(*rows, strict=True))
    return {"now": now, "after": after, "episodes": episodes.astype(np.int64)}, actions[:, None]


@pytest.mark.parametrize("dead", [0, 1, 3])
def test_a_late_effect_is_not_mistaken_for_that_of_a_similar_action_now(dead):
    given, actions = followed_targets(dead)
    found = examine_delay("level", given["now"][:, None], actions, names=("push",), signs=(1.0, -1.0), **given)
    assert found is not None
    assert (found.dead, found.lasts) == (dead, dead + 1)
    assert found.one_step == (dead == 0)
    (finding,) = delay_findings(found, "level", resets=False)
    assert finding.severity == ("ok" if dead == 0 else "stop")
    assert ("to the observation, unless it already shows" in finding.remedy) == (dead > 0)
    if dead:
        assert f"push moves level only from step {dead + 1} on" in finding.found
        assert f"Add the last {'action' if dead == 1 else f'{dead} actions'} to the observation" in finding.remedy


def height_of_a_hoist():
    log = hoist(episodes=40)
    height, after = log.observations[:, 0], log.next_observations[:, 0]
    given = {"now": height, "after": after, "episodes": log.episodes.astype(np.int64)}
    return examine_delay("height", log.observations, log.actions, names=("push",), signs=(1.0, -1.0), **given)


def test_an_effect_that_adds_up_slowly_is_not_denied():
    found = height_of_a_hoist()
    assert found.dead is None
    (finding,) = delay_findings(found, "height", resets=False)
    assert "the effect of an action on height is too small or too slow to be seen in the log" in finding.found
    assert finding.remedy.startswith("Give a backup controller")


@pytest.mark.parametrize(("horizon", "severity"), [(5, "caution"), (60, "ok")])
def test_a_backup_must_drive_long_enough(horizon, severity):
    (finding,) = delay_findings(height_of_a_hoist(), "height", resets=False, horizon=horizon)
    assert finding.severity == severity
    assert finding.means.startswith(f"The shield looks ahead to the backup, over {horizon} steps")
    assert finding.remedy == ("" if severity == "ok" else "Give a longer horizon: until the backup has come to rest.")

"""SNO-MDP on recorded and random worlds, and the defects of the original program that it does not repeat."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from safexp.studies.finite.grid_explorer import Belief, Explorer, PlannerSettings
from safexp.studies.finite.grid_planning import returnable
from safexp.studies.finite.sno_mdp import sno_mdp
from safexp.tasks.grid_world import STAY, GridWorld, random_world, rising_thresholds, violations

DATA = Path(__file__).parents[2] / "data"


def recorded_world(number: int) -> tuple[GridWorld, dict[str, np.ndarray]]:
    """A world and what the original program did in it, at β = 2."""
    with np.load(DATA / f"sno_mdp_world{number}.npz") as file:
        data = dict(file)
    known = tuple(int(cell) for cell in np.unique(np.nonzero(data["safe_seed"])[0]))
    return GridWorld(data["altitude"], data["reward"], int(data["seed_state"]), known=known), data


@pytest.mark.parametrize("number", [0, 1])
def test_it_does_at_least_as_well_as_the_original(number: int) -> None:
    world, original = recorded_world(number)
    sno_mdp(world, steps=1)
    began = time.process_time()
    run = sno_mdp(world, steps=int(original["steps"]), beta=2.0)
    seconds = time.process_time() - began
    assert run.rewards.sum() >= 0.98 * original["reward_history"].sum()
    # It takes less than 0.15 s; twice that leaves room for a busy machine.
    assert seconds <= 0.3
    # As many pairs as the original, or as many as there are: see below.
    truly = world.valid & (world.safety >= world.threshold)
    inside = returnable(truly, world.start)
    reachable = np.count_nonzero(truly & inside[:, None] & inside[world.next_state])
    assert run.certified_pairs[-1] >= 0.99 * min(int(original["certified_pairs"][-1]), reachable)


def test_the_original_certified_more_pairs_than_are_safe() -> None:
    """In world 0 it certified 1660 pairs, of which only 1645 are safe, and 1304 safe, reachable and returnable."""
    world, original = recorded_world(0)
    truly = world.valid & (world.safety >= world.threshold)
    inside = returnable(truly, world.start)
    assert original["certified_pairs"][-1] == 1660
    assert np.count_nonzero(truly) == 1645
    assert np.count_nonzero(truly & inside[:, None] & inside[world.next_state]) == 1304


def test_the_original_walked_over_moves_it_had_not_certified() -> None:
    """Its shortest path ignores what is certified, and it jumps back from a target for free; ours does neither."""
    for number in (0, 1):
        world, original = recorded_world(number)
        cells = np.array([np.argmin(np.abs(world.reward - reward)) for reward in original["reward_history"]])
        fixed = np.full(len(cells), world.threshold)
        assert violations(world.altitude, cells, fixed).any()
        run = sno_mdp(world, steps=len(cells), beta=2.0)
        assert not violations(world.altitude, run.path, fixed).any()


@pytest.mark.parametrize("seed", range(3))
def test_it_starts_at_the_start_and_never_jumps(seed: int) -> None:
    """The original begins at its first target, wherever that is."""
    world = random_world(np.random.default_rng(seed))
    path = sno_mdp(world, steps=120).path
    assert path[0] == world.start
    assert all(there in world.next_state[here] for here, there in pairwise(path))


@pytest.mark.parametrize("early_stop", ["es2", "p-es2", "never"])
def test_every_move_is_certified_when_it_is_made(early_stop: str) -> None:
    """The original's second phase weighs moves by their chance of being safe instead of demanding a certificate."""
    world = random_world(np.random.default_rng(3))
    explorer = Explorer(world, PlannerSettings(early_stop=early_stop))  # type: ignore[arg-type]

    def judge(mean: np.ndarray, deviation: np.ndarray) -> Belief:
        slack = mean - world.threshold
        return Belief(slack >= 4.0 * deviation, slack >= -4.0 * deviation, slack, deviation)

    state = world.start
    for _ in range(150):
        action = explorer.propose(state, judge)
        altitude = explorer.model.mean[0]
        after = int(world.next_state[state, action])
        variance = explorer.model.difference_variance(state, after)
        assert altitude[state] - altitude[after] - 4.0 * np.sqrt(variance) >= world.threshold - 1e-12
        state = after
        explorer.look(state)


def test_nothing_is_learned_that_was_not_seen() -> None:
    """The original observes (next state, last action), a pair never tried, and keeps an observation of pure noise."""
    world = random_world(np.random.default_rng(0))
    explorer = Explorer(world, PlannerSettings())
    seen = set(world.known) | set(world.seen_from[world.start].tolist())
    known = np.array(sorted(seen))
    assert set(np.arange(world.size)) - set(explorer.model.unseen(np.arange(world.size)).tolist()) == seen
    np.testing.assert_allclose(explorer.model.mean[1, known], world.reward.ravel()[known], atol=1e-3)


def test_the_early_stop_looks_at_moves_and_at_the_way_back() -> None:
    """A corridor with rich cells beyond a cliff: certain to be lost once jumped down, so there is nothing to gain.

    The original asks only whether the next *cell* is in the certified set, and counts cells it could not return from.
    """
    altitude = np.zeros((4, 4))
    altitude[:, 2:] = -5.0
    reward = np.ones((4, 4))
    reward[:, 2:] = 9.0
    world = GridWorld(altitude, reward, start=0, sight=3)
    run = sno_mdp(world, steps=60)
    assert run.exploration_steps < 60
    assert not run.certified[:, 1:][np.arange(16) % 4 >= 2].any()
    assert np.all(run.path % 4 < 2)


def test_the_best_safe_cell_is_found_and_kept() -> None:
    reward = np.zeros((5, 5))
    reward[4, 4] = 3.0
    run = sno_mdp(GridWorld(np.zeros((5, 5)), reward, start=0), steps=60)
    assert run.path[-1] == 24
    assert run.certified_pairs[-1] == 25 + 4 * 20


def test_beta_four_certifies_no_unsafe_pair_where_beta_two_does() -> None:
    unsafe = {2.0: 0, 4.0: 0}
    for seed in range(12):
        world = random_world(np.random.default_rng(seed))
        for beta in unsafe:
            ever = sno_mdp(world, steps=100, beta=beta).ever_certified
            unsafe[beta] += int(np.count_nonzero(ever & (world.safety < world.threshold)))
    assert unsafe[4.0] == 0
    assert unsafe[2.0] > 0


@pytest.mark.slow
def test_large_worlds_are_quick() -> None:
    began = time.process_time()
    run = sno_mdp(random_world(np.random.default_rng(0), 50), steps=400)
    assert time.process_time() - began < 5.0
    assert run.certified_pairs[-1] > 100


def test_a_record_counts_its_steps() -> None:
    world = random_world(np.random.default_rng(1), 6)
    run = sno_mdp(world, steps=17)
    assert len(run.path) == 18
    assert len(run.rewards) == len(run.certified_pairs) == 17
    assert run.rewards.tolist() == world.reward.ravel()[run.path[1:]].tolist()
    assert not run.stopped
    assert run.certified[:, STAY].any()
    assert np.all(run.first_certified[run.path[:-1]] <= np.arange(17))


def test_the_planner_needs_a_discount() -> None:
    with pytest.raises(ValueError, match=r"discount is 1.0; the planner's horizon is infinite"):
        PlannerSettings(discount=1.0)


def test_a_rising_threshold_breaks_sno_mdp() -> None:
    limits = rising_thresholds(-0.25, 0.05, 200)
    broken = 0
    for seed in range(6):
        world = random_world(np.random.default_rng(seed))
        broken += violations(world.altitude, sno_mdp(world).path, limits).any()
    assert broken >= 4

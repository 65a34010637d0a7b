"""The same sweep on a Ray cluster of two nodes, of which one dies."""

from __future__ import annotations

import pytest

from safexp.runs import cluster
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from safexp.runs.sweep import RunOutcome, run_one, sweep

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'safexp[ray]'")

LEARNER = {"n_steps": 16, "batch_size": 32}


def config(folder, seed, steps=2_400):
    return RunConfig(num_envs=4, steps=steps, learner_options=LEARNER, method="bare", seed=seed, out=folder)


@pytest.fixture
def two_nodes(monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")  # by default 15, which starves beside other tests
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes, second
    ray.shutdown()
    nodes.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_runs_are_the_same_on_a_cluster_of_which_a_node_dies(two_nodes, tmp_path):
    nodes, second = two_nodes
    here = [run(config(tmp_path / f"here-{seed}", seed)) for seed in range(2)]
    there = [config(tmp_path / f"there-{seed}", seed) for seed in range(2)]
    died = []

    def one_dies(outcome):
        begun = all((one.folder / run_folder.CHECKPOINT).exists() for one in there)
        if not died and (begun or outcome is not None):
            died.append(outcome)
            nodes.remove_node(second, allow_graceful=False)

    outcomes = sweep(there, workers=2, ray=nodes.address, tell=one_dies)
    assert died
    assert outcomes == [RunOutcome(one.folder, None) for one in there]
    for one, other in zip(here, there, strict=True):
        for name in (run_folder.EPISODES, run_folder.METRICS):
            assert (one / name).read_bytes() == (other.folder / name).read_bytes()


def test_a_worker_that_does_not_share_the_folder_sends_it(tmp_path):
    there = config(tmp_path / "there", 0, steps=64)
    parcel = cluster.run_there(run_one, there, tmp_path / "no such token")
    assert parcel.outcome == RunOutcome(there.folder, None)
    assert not there.folder.exists()
    assert {run_folder.CONFIG, run_folder.EPISODES, run_folder.METRICS, run_folder.AGENT} <= set(parcel.files)
    assert run_folder.LOCK not in parcel.files


def test_an_unknown_cluster_is_named(tmp_path):
    with pytest.raises(ValueError, match="--ray nowhere:1: no cluster can be reached at this address"):
        sweep([config(tmp_path / "run", 0)], ray="nowhere:1")

"""Many runs: what is finished is kept, what is not is done again, and what fails does not stop the others."""

from __future__ import annotations

import json

import pytest

from safexp.studies import folder as run_folder
from safexp.studies.config import RunConfig
from safexp.studies.evaluate import evaluate
from safexp.studies.run import run
from safexp.studies.sweep import Outcome, run_one, sweep


def tiny(folder, **options):
    return RunConfig(
        num_envs=4, steps=64, learner_options={"n_steps": 16, "batch_size": 32}, **{"out": folder, **options}
    )


def test_every_run_has_its_outcome_in_the_order_given(tmp_path):
    configs = [
        tiny(tmp_path / "good"),
        tiny(tmp_path / "bad", task="safexp/Nowhere-v0"),
        tiny(tmp_path / "too", seed=1),
    ]
    seen = []
    outcomes = sweep(configs, workers=2, done=seen.append)
    assert [outcome.folder.name for outcome in outcomes] == ["good", "bad", "too"]
    assert "unknown task 'safexp/Nowhere-v0'" in outcomes[1].problem
    assert outcomes[0].problem is outcomes[2].problem is None
    assert sorted(seen) == sorted(outcomes)
    assert run_folder.read(tmp_path / "too").status == "finished"


def test_a_finished_run_is_kept_and_an_unfinished_one_done_again(tmp_path):
    config = tiny(tmp_path / "run")
    assert run_one(config) == Outcome(config.folder, None)
    timing = config.folder / run_folder.TIMING
    written, episodes = timing.stat().st_mtime_ns, (config.folder / run_folder.EPISODES).read_bytes()
    run_one(config)
    assert timing.stat().st_mtime_ns == written
    timing.unlink()
    (config.folder / run_folder.EPISODES).write_bytes(episodes[: len(episodes) // 2])
    assert run_one(config).problem is None
    assert (config.folder / run_folder.EPISODES).read_bytes() == episodes


def test_the_folder_of_another_run_is_left_alone(tmp_path):
    run(tiny(tmp_path / "run"))
    outcome = run_one(tiny(tmp_path / "run", seed=5))
    assert "another description" in outcome.problem
    assert json.loads((tmp_path / "run" / run_folder.CONFIG).read_text())["config"]["seed"] == 0


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same folder"):
        sweep([tiny(tmp_path / "run"), tiny(tmp_path / "run", seed=1)])
    with pytest.raises(ValueError, match="workers=0"):
        sweep([tiny(tmp_path / "run")], workers=0)


@pytest.mark.parametrize("method", ["mase", "saute"])
def test_an_agent_is_evaluated_without_exploration_one_episode_for_each_environment(tmp_path, method):
    folder = run(tiny(tmp_path / "run", method=method))
    episodes = evaluate(folder, 6)
    assert len(episodes) == 6
    assert episodes == evaluate(folder, 6)
    assert method == "saute" or not any(episode.violated for episode in episodes)


def test_without_an_agent_there_is_nothing_to_evaluate(tmp_path):
    folder = run(tiny(tmp_path / "run"))
    (folder / run_folder.AGENT).unlink()
    with pytest.raises(run_folder.RunFolderError, match="holds no agent"):
        evaluate(folder)

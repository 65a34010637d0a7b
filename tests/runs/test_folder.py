import json
from pathlib import Path

import pytest

from safexp.records.episodes import Episode
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig

EPISODES = [Episode(i, 10 * i + 10, 10, 1 / 3, -0.5, 2.25, 0.5, i == 1, i == 2, i) for i in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = RunConfig(out=tmp_path / "run").settled()
    run_folder.begin(config.folder, config, "safexp train")
    run_folder.append_episodes(config.folder, EPISODES[:2])
    run_folder.append_episodes(config.folder, EPISODES[2:])
    run_folder.append_metrics(config.folder, {"steps": 30, "violations": 1})
    return config.folder


def test_what_is_written_is_read(folder: Path) -> None:
    run = run_folder.read(folder)
    assert run.episodes == EPISODES
    assert run.metrics == [{"steps": 30, "violations": 1}]
    assert run.config == RunConfig(out=folder).settled()
    assert run.command == "safexp train"
    assert run.versions["torch"]
    assert run.status == "unfinished"


def test_the_columns_are_the_contract(folder: Path) -> None:
    first, second, *_ = (folder / "episodes.csv").read_text().splitlines()
    assert first == (
        "episode,end_step,length,return,penalised_return,cost,max_step_cost,violated,stopped,interventions,takeovers,"
        "unreadable,drills"
    )
    assert second == "0,10,10,0.3333333333333333,-0.5,2.25,0.5,0,0,0,0,0,0"


def test_judged_stops_have_columns_of_their_own(tmp_path: Path) -> None:
    config = RunConfig(out=tmp_path / "run").settled()
    judged = [
        episode._replace(after_stop_steps=5, after_stop_cost=1.5, after_stop_violated=True) for episode in EPISODES
    ]
    run_folder.begin(config.folder, config, "safexp train", judges_stops=True)
    run_folder.append_episodes(config.folder, judged, judges_stops=True)
    first, second, *_ = (config.folder / "episodes.csv").read_text().splitlines()
    assert first.endswith("drills,after_stop_steps,after_stop_cost,after_stop_violated")
    assert second.endswith(",0,5,1.5,1")
    assert run_folder.read(config.folder).episodes == judged


@pytest.mark.parametrize("missing", [1, 2])
def test_episodes_written_before_some_counts_existed_can_be_read(folder: Path, missing: int) -> None:
    file = folder / "episodes.csv"
    file.write_text("".join(line.rsplit(",", missing)[0] + "\n" for line in file.read_text().splitlines()))
    assert run_folder.read(folder).episodes == EPISODES


def test_a_line_that_is_being_written_is_left_out(folder: Path) -> None:
    for name in ("episodes.csv", "metrics.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"3,40')
    run = run_folder.read(folder)
    assert run.episodes == EPISODES
    assert len(run.metrics) == 1


def test_a_run_that_has_just_begun_can_be_read(folder: Path) -> None:
    for name in ("episodes.csv", "metrics.jsonl"):
        (folder / name).unlink()
    assert run_folder.read(folder).episodes == []


def test_two_runs_never_share_a_folder(folder: Path) -> None:
    with pytest.raises(run_folder.RunFolderError, match="exists already: continue it with --resume"):
        run_folder.refuse_existing(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json is not JSON"),
        ("config.json", "[]", "config.json is not a JSON object"),
        ("config.json", "{}", "has no entry 'config': safexp did not write it"),
        ("config.json", json.dumps({"config": {"colour": 1}}), "unknown settings colour"),
        ("config.json", json.dumps({"config": 3}), "cannot be read as a run"),
        ("config.json", json.dumps({"config": {}, "versions": 3, "command": ""}), "cannot be read as a run"),
        ("episodes.csv", "a,b\n", "episodes.csv has the columns a, b; expected episode"),
        ("metrics.jsonl", "nonsense\n", "line 1 of metrics.jsonl is damaged"),
        ("metrics.jsonl", "[1]\n", "line 1 of metrics.jsonl is damaged"),
        ("metrics.jsonl", '{"steps": 10}\n', "line 1 of metrics.jsonl is damaged .KeyError: 'violations'"),
        ("metrics.jsonl", '{"steps": null, "violations": 0}\n', "line 1 of metrics.jsonl is damaged"),
        ("timing.json", "x", "timing.json is not JSON"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(folder: Path, name: str, content: str, message: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(run_folder.RunFolderError, match=message):
        run_folder.read(folder)


def test_a_damaged_row_is_named(folder: Path) -> None:
    with (folder / "episodes.csv").open("a") as file:
        file.write("3,40,ten,0,0,0,0,0,0,0\n")
    with pytest.raises(run_folder.RunFolderError, match=r"line 5 of episodes\.csv is damaged"):
        run_folder.read(folder)


def test_other_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(run_folder.RunFolderError, match="nowhere does not exist"):
        run_folder.read(tmp_path / "nowhere")
    with pytest.raises(run_folder.RunFolderError, match=r"has no config\.json: it is not a run folder"):
        run_folder.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(run_folder.RunFolderError, match="is not a folder"):
        run_folder.read(tmp_path / "file")


def test_run_folders_are_found_where_a_sweep_put_them(tmp_path: Path) -> None:
    for name in ("sweep/a", "sweep/b", "alone"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / run_folder.CONFIG).touch()
    page, sweep, alone = tmp_path / "sweep" / "report.html", tmp_path / "sweep", tmp_path / "alone"
    page.touch()
    assert run_folder.folders_of([sweep, alone, alone]) == [sweep / "a", sweep / "b", alone]
    assert run_folder.folders_of(sorted(sweep.iterdir())) == [sweep / "a", sweep / "b"]
    assert run_folder.folders_of([page]) == [page]  # and is then named as what it is

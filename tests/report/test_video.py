import sys
from dataclasses import replace
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from safexp import Budget, Instantaneous, Margin
from safexp.cli import main
from safexp.records.episodes import Episode
from safexp.report.gauge import gauge
from safexp.report.video import ALARM, PANEL, SAFE, SIZE, UNSAFE, film, picture_of, status, writer_for
from safexp.runs.config import RunConfig
from safexp.runs.forecast import Signal
from safexp.runs.play import CELLS, Choices, Moment
from safexp.runs.run import run
from safexp.tasks.drawing import AHEAD
from safexp.tasks.planar_robot import scene
from safexp.tasks.scene import Way

ENDED = Episode(0, 9, 9, 1.0, 1.0, 2.0, 1.0, violated=False, stopped=False, interventions=0)


def moment(safe: np.ndarray) -> Moment:
    choices = Choices(-np.ones(safe.ndim), np.ones(safe.ndim), safe)
    action = np.zeros(safe.ndim)
    view = scene(np.array([-1.0, 0.0, 0.0, 0.0]))
    return Moment(0, 3, view, 1.0, 0.5, 0.5, 0.1, choices, proposed=action, executed=action)


def count(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((picture == colour).all(axis=2).sum())


def test_the_safe_set_is_drawn_to_scale() -> None:
    safe = np.zeros((CELLS, CELLS), dtype=bool)
    safe[: CELLS // 3] = True  # a third of the first axis, which goes across
    picture = picture_of(moment(safe), Budget(2.0), "a\nb")
    assert picture.shape == (SIZE, SIZE + PANEL, 3)
    assert count(picture, SAFE) / (count(picture, SAFE) + count(picture, UNSAFE)) == pytest.approx(1 / 3, abs=0.02)
    columns = np.flatnonzero((picture == SAFE).all(axis=2).any(axis=0))
    assert columns.max() < np.flatnonzero((picture == UNSAFE).all(axis=2).any(axis=0)).min()
    up = picture_of(moment(safe.T), Budget(2.0), "a\nb")
    rows = np.flatnonzero((up == SAFE).all(axis=2).any(axis=1))
    assert rows.min() > np.flatnonzero((up == UNSAFE).all(axis=2).any(axis=1)).max()


def test_an_intervention_shows_the_proposal_where_it_was() -> None:
    quiet = moment(np.ones((CELLS, CELLS), dtype=bool))
    loud = replace(quiet, proposed=np.array([1.0, 1.0]), executed=np.array([-1.0, -1.0]), intervened=True)
    plain, shown = (picture_of(one, Budget(2.0), "a\nb")[:, SIZE:] for one in (quiet, loud))
    assert count(plain, ALARM) == 0
    rows, columns = np.nonzero((shown == ALARM).all(axis=2) & (np.arange(SIZE) < 380)[:, None])
    assert columns.mean() > PANEL / 2
    assert rows.mean() < SIZE / 2
    assert status(loud)[0] == "the shield intervenes"


@pytest.mark.parametrize("length", [9, 21])
def test_one_row_of_actions_and_none(length: int) -> None:
    row = picture_of(moment(np.ones(length, dtype=bool)), Budget(2.0), "a\nb")
    assert count(row, SAFE) > 1000
    nothing = replace(moment(np.ones(length, dtype=bool)), choices=None, view=np.full((30, 90, 3), 9, np.uint8))
    picture = picture_of(nothing, Budget(2.0), "a\nb")
    assert count(picture, SAFE) == 0
    assert tuple(picture[SIZE // 2, SIZE // 2]) == (9, 9, 9)


def test_it_says_who_drives_and_draws_the_way_ahead() -> None:
    plain = moment(np.ones((CELLS, CELLS), dtype=bool))
    way = Way(np.array([[-1.0, 0.0], [-0.5, 0.2], [0.0, 0.2]]), np.array([0.0, 0.1, 0.2]))
    seen = replace(plain, forecast=way, view=replace(plain.view, ahead=way))
    assert status(plain)[0] == ""
    assert status(seen)[0] == "the policy drives"
    assert status(replace(seen, intervened=True))[0] == "the shield intervenes"
    assert status(replace(seen, takeover=True, intervened=False))[0] == "the backup drives"
    pictures = [picture_of(one, Budget(1.0), "title")[:, :SIZE] for one in (plain, seen)]
    assert count(pictures[1], AHEAD) > count(pictures[0], AHEAD) == 0
    signals = (Signal("x", np.zeros(9), np.full(9, 0.2), -1.0, 1.0),)
    chart = replace(moment(np.ones(CELLS, dtype=bool)), forecast=signals)
    assert count(picture_of(chart, Budget(1.0), "title")[:, SIZE:], AHEAD) > 100


def test_how_an_episode_ended_is_said() -> None:
    end = Moment(0, 9, None, 0.0, 0.5, 2.0, 1.0, outcome=ENDED)
    assert status(end)[0] == "the end: the constraint held"
    assert status(replace(end, outcome=ENDED._replace(stopped=True)))[0] == "stopped: nothing safe is left"
    assert status(replace(end, outcome=ENDED._replace(stopped=True, violated=True)))[0] == "the constraint is broken"


def test_gauges() -> None:
    assert gauge(Budget(20.0), 5.0, 1.0) == ("budget left: 5 of 20", 0.25, None, "low")
    assert gauge(Budget(20.0, cost_max=2.0), 7.5, 1.0) == ("budget left: 15 of 20", 0.75, None, "good")
    assert gauge(Budget(20.0), -3.0, 1.0) == ("budget of 20 overspent by 3", 1.0, None, "bad")
    assert gauge(Budget(0.0), 0.0, None) == ("budget left: 0 of 0", 0.0, None, "low")
    assert gauge(Instantaneous(3.0, cost_max=10.0), 0.3, 4.0) == ("last cost: 4, limit 3", 0.4, 0.3, "bad")
    assert gauge(Instantaneous(3.0, cost_max=10.0), 0.3, None) == ("last cost: 0, limit 3", 0.0, 0.3, "good")
    assert gauge(Margin(scale=2.0), 0.5, 1.0) == ("margin: 1", 0.75, 0.5, "good")
    assert gauge(Margin(scale=2.0), 0.5, -1.0) == ("margin: -1", 0.25, 0.5, "bad")
    assert gauge(Margin(scale=2.0), 0.5, None) == ("margin: none yet", 0.5, 0.5, "good")


def test_the_last_moment_stays_for_a_second() -> None:
    now = moment(np.ones((CELLS, CELLS), dtype=bool))
    assert len(list(film([now, replace(now, outcome=ENDED)], Budget(2.0), "a\nb", fps=10))) == 11


@pytest.mark.slow
def test_films_are_written_as_a_user_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    folder = run(RunConfig(num_envs=4, steps=256, learner_options=options, limit=2.0, out=tmp_path / "run"))
    words = ["play", str(folder), "--episodes", "1", "--fps", "20"]
    film_path, gif_path = tmp_path / "films" / "a.mp4", tmp_path / "films" / "a.gif"
    assert main([*words, "--video", str(film_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"video: {film_path}"
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(film_path))
    assert frames > 20
    assert seconds == pytest.approx(frames / 20, rel=0.05)
    assert main([*words, "--video", str(gif_path)]) == 0
    with Image.open(gif_path) as gif:
        assert gif.size == (SIZE + PANEL, SIZE)
        durations = []
        for index in range(gif.n_frames):  # type: ignore[attr-defined]
            gif.seek(index)
            durations.append(gif.info["duration"])
    assert sum(durations) == frames * 50  # frames that are alike are written once, and stay longer
    assert sorted(path.name for path in film_path.parent.iterdir()) == ["a.gif", "a.mp4"]


def test_what_cannot_be_written_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"a.avi must end in \.mp4 or \.gif"):
        writer_for(Path("a.avi"))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"needs imageio_ffmpeg: pip install 'safexp\[video\]', or write a \.gif"):
        writer_for(Path("a.mp4"))

"""Optional dependencies: which extra of safexp installs a missing package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

EXTRAS = MappingProxyType(
    {
        "train": ("torch", "stable_baselines3", "sb3_contrib", "rich", "tyro", "tensorboard", "filelock"),
        "tasks": ("mujoco", "glfw", "imageio", "packaging"),
        "report": ("plotly", "matplotlib", "jinja2", "PIL"),
        "onnx": ("onnx",),
        "optuna": ("optuna",),
        "pandas": ("pandas",),
        "parquet": ("pyarrow",),
        "ray": ("ray",),
        "video": ("imageio_ffmpeg",),
        "wandb": ("wandb",),
        "mlflow": ("mlflow",),
        "field": ("gym_electric_motor", "highway_env", "gymnasium_robotics", "pcgym"),
    }
)
"""Import names of the packages of each extra."""


class MissingExtraError(ImportError):
    """Error for an optional dependency that is not installed; the message names the extra.

    Example:
        >>> try:
        ...     export = safexp.export_onnx
        ... except safexp.MissingExtraError as error:
        ...     print(error)  # names the extra: pip install 'safexp[train]'
        >>> issubclass(safexp.MissingExtraError, ImportError)
        True
    """


@contextmanager
def needed_for(what: str, instead: str = "") -> Iterator[None]:
    """Context for importing optional dependencies; `instead` describes an alternative without them.

    Example:
        >>> with needed_for("a film", instead=", or write a .gif"):
        ...     raise ModuleNotFoundError(name="imageio_ffmpeg")
        Traceback (most recent call last):
        ...
        safexp.core.extras.MissingExtraError: a film needs imageio_ffmpeg: pip install 'safexp[video]', or write a .gif.

    Raises:
        MissingExtraError: if a package of an extra is missing. Other errors pass through.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
        if extra is None:
            raise
        raise MissingExtraError(f"{what} needs {package}: pip install 'safexp[{extra}]'{instead}.") from error

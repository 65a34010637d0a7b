"""User-defined tasks, methods, learners and quantifiers, named `package:Name` as in Gymnasium."""

from __future__ import annotations

import difflib
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import gymnasium as gym


def is_own(name: str) -> bool:
    """Whether a name is user-defined, `package:Name`."""
    return ":" in name


def find_task(name: str) -> None:
    """Raise `ValueError` if Gymnasium has no such task; the package of `package:Name-v0` is imported."""
    package, _, plain = name.rpartition(":")
    if package:
        _imported(package, f"task={name!r}")
    try:
        gym.spec(plain)
    except gym.error.UnregisteredEnv as error:
        close = difflib.get_close_matches(name, gym.registry, n=3)
        hint = f" Close names: {', '.join(close)}." if close else ""
        raise ValueError(f"unknown task {name!r}: {error}{hint} `safexp tasks` lists the built-in ones.") from error
    except gym.error.Error as error:
        raise ValueError(f"cannot make task {name!r}: {error}") from error


def find(name: str, what: str) -> Any:
    """Import the object `package:Name` for the setting `what`.

    Raises:
        ValueError: if there is no such package, it cannot be imported, or it has no such name.
    """
    package, _, attribute = name.partition(":")
    if not (package and attribute):
        raise ValueError(f"{what}={name!r}: expected package:name, such as my_package:{attribute or 'name'}.")
    _imported(package, f"{what}={name!r}")
    try:
        return resolve_name(name)
    except (AttributeError, ValueError) as error:  # no such name, or not a valid one
        raise ValueError(f"{what}={name!r}: {package} has no {attribute!r}.") from error


def find_callable(name: str, what: str, takes: str) -> Any:
    """Import a user's function or class; `takes` describes it in the error."""
    found = find(name, what)
    if not callable(found):
        raise ValueError(f"{what}={name!r} is {found!r}; expected {takes}.")
    return found


def _imported(package: str, wanted: str) -> None:
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{wanted}: there is no module {error.name!r}, neither installed nor in the current directory."
        ) from error
    except Exception as error:
        raise ValueError(f"{wanted}: importing {package} raised {type(error).__name__}: {error}") from error

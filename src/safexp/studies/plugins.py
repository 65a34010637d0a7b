"""What a user adds without touching our code, named `package:Name` as Gymnasium names environments."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def is_own(name: str) -> bool:
    """Whether a name is one of the user's own, `package:Name`."""
    return ":" in name


def find(name: str, what: str) -> Any:
    """The object that `package:Name` names, for the setting `what`; its package is imported.

    Raises:
        ValueError: where there is no such package, it cannot be imported, or it has no such name.
    """
    package, _, attribute = name.partition(":")
    if not (package and attribute):
        raise ValueError(f"{what}={name!r}: say package:name, such as my_package:{attribute or 'name'}.")
    try:
        found: Any = import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{what}={name!r}: there is no module {error.name!r}, neither installed nor in the current directory."
        ) from error
    except Exception as error:
        raise ValueError(f"{what}={name!r}: importing {package} raised {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{what}={name!r}: {package} has no {attribute!r}.")
        found = getattr(found, part)
    return found


def find_callable(name: str, what: str, takes: str) -> Any:
    """The user's function or class, which `takes` what the error says."""
    found = find(name, what)
    if not callable(found):
        raise ValueError(f"{what}={name!r} is {found!r}; expected {takes}.")
    return found

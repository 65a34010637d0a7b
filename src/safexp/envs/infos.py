"""Infos of a vector step: columns, converted to the dicts of Stable-Baselines3 on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array

Info = dict[str, Any]
Column = Sequence[Any] | NDArray[Any]


class Infos(Sequence[Info]):
    """Infos of n environments after a step.

    To Stable-Baselines3 it is a list of dicts. The dict of an environment is built from its entries in the `columns` on
    first access and kept, so that entries can be added to it.

    Args:
        columns: entries of all environments by name, n each; `groups` are dicts of such columns by name (`add`).
        rows: existing dicts of the environments, None for an environment without one.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], rows: Sequence[Info | None]) -> None:
        self.columns = dict(columns)
        self.groups: dict[str, dict[str, Column]] = {}
        self._rows = list(rows)

    @classmethod
    def of(cls, infos: Sequence[Info]) -> Infos:
        """Infos of any `VecEnv`."""
        return infos if isinstance(infos, cls) else cls({}, infos)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Info]:
        return (self[i] for i in range(len(self._rows)))

    @overload
    def __getitem__(self, index: int) -> Info: ...
    @overload
    def __getitem__(self, index: slice) -> list[Info]: ...
    def __getitem__(self, index: int | slice) -> Info | list[Info]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self._rows))[index]]
        row = self._rows[index]
        if row is None:
            row = {name: column[index] for name, column in self.columns.items()}
            row |= {name: _entries(group, index) for name, group in self.groups.items()}
            self._rows[index] = row
        return row

    def add(self, name: str, group: dict[str, Column]) -> None:
        """Give every environment a dict with its entries in these columns, under this name."""
        self.groups[name] = group
        for index, row in enumerate(self._rows):
            if row is not None:
                row[name] = _entries(group, index)

    def column(self, key: str) -> NDArray[Any]:
        """Entry of all environments, as an array (n,)."""
        if key in self.columns:
            return self.columns[key]
        missing = [i for i, info in enumerate(self) if key not in info]
        if missing:
            raise KeyError(
                f"environment {missing[0]} gave no info[{key!r}] (it has {sorted(self[missing[0]])}): put it into the "
                "info of every step, or give the constraint cost=<function of observations, actions, next "
                "observations>."
            )
        return np.array([info[key] for info in self], dtype=np.float64)

    def readable(self, key: str) -> Array:
        """Entry of all environments, as an array (n,), NaN where an environment gave no number."""
        values = np.full(len(self), np.nan)
        for i, value in enumerate(self.columns[key] if key in self.columns else [info.get(key) for info in self]):
            with suppress(TypeError, ValueError):
                values[i] = float(value)
        return values

    def gives(self, key: str) -> bool:
        """Whether every environment gave a single number under this key."""
        if key in self.columns:
            return self.columns[key].ndim == 1
        return all(info.get(key) is not None and np.ndim(info[key]) == 0 for info in self)


def _entries(group: dict[str, Column], index: int) -> Info:
    return {name: column[index] for name, column in group.items()}

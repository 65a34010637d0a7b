"""C program under construction: learned numbers, memory, constants, and the statements that predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from safexp.compiled.blueprint import Blueprint
from safexp.compiled.tables import Tables
from safexp.core.encoding import encoded_size


class Place(NamedTuple):
    """Where a state is in the memory, and its number of entries."""

    start: int
    size: int


class Program:
    """Parts of a C file; translators of quantifiers, constraints and controllers add to it.

    Attributes:
        tables: the learned numbers.
        of_state: statements for what all actions in a state share.
        of_all: statements for what all fixed candidates share, if they are searched.
        predict: statements that write `mean` and `width` of the costs of the actions `a`.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.tables = Tables()
        self.of_state: list[str] = []
        self.of_all: list[str] = []
        self.predict: list[str] = []
        self.constants: list[str] = []
        self.snippets: list[str] = []
        self.memory = encoded_size(blueprint.observation_space) + blueprint.quantifier.num_signals
        self.scratch = 1
        self._names = 0

    @property
    def actions(self) -> int:
        """Entries of an encoded action."""
        return self.blueprint.candidates.shape[1]

    def reserve(self, count: int) -> int:
        """Reserve numbers of the caller's struct; returns where they begin."""
        start = self.memory
        self.memory += count
        return start

    def work(self, count: int) -> None:
        """Make the work space at least this large."""
        self.scratch = max(self.scratch, count)

    def use(self, *snippets: str) -> None:
        """Include files of the C core, in this order."""
        self.snippets += [name for name in snippets if name not in self.snippets]

    def name(self, kind: str) -> str:
        """New name for a constant."""
        self._names += 1
        return f"{kind}_{self._names}"

    def struct(self, kind: str, **fields: int | str) -> str:
        """Define a constant of this type; returns its name."""
        name = self.name(f"the_{kind}")
        inside = ", ".join(f".{field} = {value}" for field, value in fields.items())
        self.constants.append(f"static const {kind} {name} = {{{inside}}};")
        return name

    def structs(self, kind: str, each: Sequence[dict[str, int | str]]) -> str:
        """Define an array of constants of this type; returns its name."""
        name = self.name(f"the_{kind}s")
        rows = ",\n    ".join(
            "{" + ", ".join(f".{field} = {value}" for field, value in fields.items()) + "}" for fields in each
        )
        self.constants.append(f"static const {kind} {name}[] = {{\n    {rows},\n}};")
        return name

    def integers(self, what: str, values: ArrayLike, kind: str = "int") -> str:
        """Define an array of whole numbers; returns its name."""
        name = self.name(what)
        words = ", ".join(map(str, np.asarray(values, dtype=np.int64).ravel().tolist())) or "0"
        self.constants.append(f"static const {kind} {name}[] = {{{words}}};")
        return name

    def gathered(self, place: Place, entries: Sequence[int]) -> Place:
        """Place of some entries of a state, which are copied there for every state."""
        if list(entries) == list(range(place.size)):
            return place
        chosen = Place(self.reserve(len(entries)), len(entries))
        listed = self.integers("entries", [place.start + entry for entry in entries])
        self.use("gather")
        self.of_state.append(f"gather(s, {listed}, {len(entries)}, {chosen.start});")
        return chosen

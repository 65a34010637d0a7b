"""Snapshot of the state of live objects as plain values and arrays, and restoring it into newly built objects.

A run's settings build the same structure every time. So a snapshot need not record how objects are made, only their
state: it follows attributes and containers from a root, and `restore` writes the state into a newly built structure.
Functions, classes, loggers and compiled models are left as built. Reading a snapshot runs no code: only plain
containers, arrays, generators and attributes of safexp's own classes are created, and no constructor is called.

A class can name attributes in `transient` that are not stored, and update them in a method `restored`; an object's
`filled` is the number of rows of its arrays that are in use.
"""

from __future__ import annotations

import base64
import enum
import functools
import io
import logging
import random
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnvWrapper

from safexp.core.files import Arrays, CheckpointError, Document, count

PLAIN = (type(None), bool, int, float, str)
AS_BUILT = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.MappingProxyType),
    *(functools.partial, type, enum.Enum, weakref.ReferenceType, io.IOBase, logging.Logger, Logger, BaseCallback),
    *(np.dtype, np.ufunc, th.device, th.dtype, th.Size, th.distributions.Distribution),
    random.SystemRandom,
)
"""Types that a snapshot skips: they are the same in every object built from the same settings, or irrelevant."""

SHARED = {"random": random._inst, "numpy": np.random.mtrand._rand, "torch": th.default_generator}
"""The global random generators."""

BIT_GENERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
"""Bit generators that a file may name."""

NOTHING: Any = object()
"""Placeholder for a missing template."""


class Kept(NamedTuple):
    """Functions that read and write the state of a type that hides it."""

    kind: type
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def _mujoco_state(data: Any) -> NDArray[np.float64]:
    import mujoco

    kinds = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(data.model, kinds))
    mujoco.mj_getState(data.model, data, state, kinds)
    return state


def _restore_mujoco(data: Any, state: NDArray[np.float64]) -> None:
    import mujoco

    mujoco.mj_setState(data.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)


HIDDEN = (
    Kept(np.random.RandomState, lambda g: g.get_state(legacy=False), lambda g, s: g.set_state(s)),
    Kept(random.Random, lambda g: g.getstate(), lambda g, s: g.setstate(s)),
    Kept(th.Generator, lambda g: g.get_state(), lambda g, s: g.set_state(s)),
    Kept(th.optim.Optimizer, lambda o: o.state_dict(), lambda o, s: o.load_state_dict(s)),
)


def kinds_here() -> tuple[tuple[type, ...], tuple[Kept, ...]]:
    """`AS_BUILT` and `HIDDEN`, with MuJoCo's types if it has been imported."""
    if "mujoco" not in sys.modules:
        return AS_BUILT, HIDDEN
    import mujoco
    from mujoco.batch import Batch

    return (*AS_BUILT, mujoco.MjModel, Batch), (*HIDDEN, Kept(mujoco.MjData, _mujoco_state, _restore_mujoco))


def take(root: Any) -> tuple[Document, Arrays]:
    """Take a snapshot of an object.

    Raises:
        CheckpointError: if it contains an object whose state cannot be read, with its path.
    """
    taker = _Taker()
    return taker.take(root, type(root).__name__), taker.arrays


def restore(root: Any, document: Document, arrays: Arrays) -> None:
    """Restore a snapshot from `take` into an object that was built in the same way.

    Raises:
        CheckpointError: if the object has another structure.
    """
    _Restorer(arrays).put(document, root, type(root).__name__)


class _Taker:
    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._numbers: dict[int, int] = {}
        self._as_built, self._with_hidden_state = kinds_here()
        self._alive: list[Any] = []  # so that no id is reused

    def take(self, value: Any, path: str) -> Any:
        if type(value) in PLAIN:
            return value
        if isinstance(value, self._as_built):
            return {"is": "as built"}
        if id(value) in self._numbers:
            return {"is": "again", "at": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        return {"at": number, **self._describe(value, number, path)}

    def _describe(self, value: Any, number: int, path: str) -> Document:
        if isinstance(value, np.ndarray | np.generic | th.Tensor):
            return self._array(value, number, path)
        for kept in self._with_hidden_state:
            if isinstance(value, kept.kind):
                return {"is": "hidden", "state": self.take(kept.read(value), path)}
        match value:
            case np.random.SeedSequence():
                return {"is": "seed", "state": self.take(value.state, path)}
            case np.random.BitGenerator():
                return {"is": "bits", "state": self.take(value.state, path), "seed": self.take(value.seed_seq, path)}
            case np.random.Generator():
                return {"is": "generator", "bits": self.take(value.bit_generator, path)}
            case bytes():
                return {"is": "bytes", "text": base64.b64encode(value).decode()}
            case Path():
                return {"is": "path", "text": str(value)}
            case slice():
                return {"is": "slice", "items": self._items((value.start, value.stop, value.step), path)}
            case deque():
                return {"is": "deque", "longest": value.maxlen, "items": self._items(value, path)}
            case list() | tuple() | set() | frozenset():
                name = next(kind for kind in (list, tuple, set, frozenset) if isinstance(value, kind)).__name__
                return {"is": name, "class": _class_name(type(value)), "items": self._items(value, path)}
            case dict():
                items = [[self.take(key, path), self.take(part, f"{path}[{key!r}]")] for key, part in value.items()]
                return {"is": "dict", "class": _class_name(type(value)), "items": items}
        attributes = _attributes(value)
        if attributes is None:
            raise CheckpointError(f"{path} is a {type(value).__name__}, whose state cannot be read.")
        filled = value.size() if isinstance(value, ReplayBuffer) else getattr(value, "filled", None)
        state = {}
        for name, part in attributes.items():
            if name in _transient(value):
                continue
            cut = filled is not None and isinstance(part, np.ndarray) and len(part) > filled
            state[name] = self.take(part[:filled] if cut else part, f"{path}.{name}")
            if cut:
                state[name]["head"] = True
        return {"is": "object", "class": _class_name(type(value)), "state": state}

    def _items(self, values: Iterable[Any], path: str) -> list[Any]:
        return [self.take(part, f"{path}[{i}]") for i, part in enumerate(values)]

    def _array(self, value: Any, number: int, path: str) -> Document:
        kind = "tensor" if isinstance(value, th.Tensor) else "array" if isinstance(value, np.ndarray) else "scalar"
        plain = value.detach().cpu().numpy() if isinstance(value, th.Tensor) else np.asarray(value)
        if plain.dtype == object:
            return {"is": "objects", "shape": list(plain.shape), "items": self._items(plain.reshape(-1), path)}
        if plain.dtype.kind not in "biuf":
            raise CheckpointError(f"{path} is an array of type {plain.dtype}, which a file cannot store.")
        self.arrays[str(number)] = np.array(plain).reshape(-1)  # a copy, since the original may change
        return {"is": kind, "shape": list(plain.shape)}


class _Restorer:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._made: dict[int, Any] = {}
        self._used: set[int] = set()  # ids of templates that already have their values
        self._as_built, self._with_hidden_state = kinds_here()
        self._alive: list[Any] = []

    def put(self, document: Any, template: Any, path: str) -> Any:
        """The value that a document describes: the template itself, changed in place where possible."""
        if type(document) in PLAIN:
            return document
        match document["is"]:
            case "as built":
                return template
            case "again":
                return self._made[document["at"]]
        if template is not NOTHING and (id(template) in self._used or isinstance(template, self._as_built)):
            template = NOTHING  # shared when built, but not when the snapshot was taken
        value = self._value(document, template, path)
        self._made[document["at"]] = value
        self._used.add(id(value))
        self._alive.append(value)
        return value

    def _value(self, document: Document, template: Any, path: str) -> Any:
        match document["is"]:
            case "array" | "scalar" | "tensor":
                return self._array(document, template)
            case "objects":
                items = [self.put(part, NOTHING, path) for part in document["items"]]
                whole = np.empty(len(items), dtype=object)
                whole[:] = items
                return whole.reshape(document["shape"])
            case "bytes":
                return base64.b64decode(document["text"])
            case "path":
                return Path(document["text"])
            case "slice":
                return slice(*self._items(document, [], path))
            case "hidden":
                return self._hidden(document, template, path)
            case "seed":
                return _new_seed(self.put(document["state"], NOTHING, path), path)
            case "bits":
                return self._bits(document, template, path)
            case "generator":
                bits = self.put(document["bits"], getattr(template, "bit_generator", NOTHING), path)
                return template if getattr(template, "bit_generator", None) is bits else np.random.Generator(bits)
            case "list" | "deque":
                return self._sequence(document, template, path)
            case "tuple" | "set" | "frozenset":
                return self._fixed(document, template, path)
            case "dict":
                return self._mapping(document, template, path)
            case "object":
                return self._object(document, template, path)
            case other:
                raise CheckpointError(f"{path}: the file has a value of unknown kind {other!r}.")

    def _array(self, document: Document, template: Any) -> Any:
        found = self._arrays[str(document["at"])].reshape(document["shape"])
        if document["is"] == "scalar":
            return found[()]
        if document["is"] == "tensor":
            tensor = th.from_numpy(found.copy())
            fits = isinstance(template, th.Tensor) and template.shape == tensor.shape and template.dtype == tensor.dtype
            if fits and not template.is_inference():
                with th.no_grad():
                    return template.copy_(tensor)
            return tensor
        alike = isinstance(template, np.ndarray) and template.dtype == found.dtype and template.flags.writeable
        if alike and document.get("head") and template.shape[1:] == found.shape[1:]:
            template[: len(found)] = found
        elif alike and template.shape == found.shape:
            template[...] = found
        else:
            return found.copy()
        return template

    def _hidden(self, document: Document, template: Any, path: str) -> Any:
        state = self.put(document["state"], NOTHING, path)
        for kept in self._with_hidden_state:
            if isinstance(template, kept.kind):
                kept.write(template, state)
                return template
        if template is NOTHING or template is None:
            raise CheckpointError(f"{path} is in the file, but not in the newly built object.")
        raise CheckpointError(f"{path} is a {type(template).__name__} here, but another type in the file.")

    def _bits(self, document: Document, template: Any, path: str) -> np.random.BitGenerator:
        """The state of a bit generator, and the seed that it spawns others from."""
        state = self.put(document["state"], NOTHING, path)
        seed = self.put(document["seed"], getattr(template, "seed_seq", NOTHING), path)
        kind = BIT_GENERATORS.get(state["bit_generator"])
        if kind is None:
            raise CheckpointError(f"{path} has {state['bit_generator']!r}, which is not one of numpy's bit generators.")
        bits = template if type(template) is kind else kind()
        bits.__setstate__((state, seed))
        return bits

    def _sequence(self, document: Document, template: Any, path: str) -> Any:
        alike = isinstance(template, deque if document["is"] == "deque" else list)
        before = list(template) if alike else []
        target: Any = template
        if not alike:
            target = deque(maxlen=document["longest"]) if document["is"] == "deque" else []
        self._made[document["at"]] = target
        items = self._items(document, before, path)
        target.clear()
        target.extend(items)
        return target

    def _fixed(self, document: Document, template: Any, path: str) -> Any:
        before = list(template) if isinstance(template, tuple) else []
        items = self._items(document, before, path)
        if document["is"] != "tuple":
            return set(items) if document["is"] == "set" else frozenset(items)
        if document["class"] == "builtins:tuple":
            return tuple(items)
        kind = type(template) if _class_name(type(template)) == document["class"] else _own(document["class"], path)
        if not issubclass(kind, tuple):
            raise CheckpointError(f"{path} is a tuple of class {document['class']}, which is not a tuple class.")
        return tuple.__new__(kind, items)

    def _items(self, document: Document, before: list[Any], path: str) -> list[Any]:
        items = [
            self.put(part, before[i] if i < len(before) else NOTHING, f"{path}[{i}]")
            for i, part in enumerate(document["items"])
        ]
        if any(item is NOTHING for item in items):
            raise CheckpointError(f"{path} has a function, class or logger that was created after the run started.")
        return items

    def _mapping(self, document: Document, template: Any, path: str) -> Any:
        alike = isinstance(template, dict) and _class_name(type(template)) == document["class"]
        before = dict(template) if alike else {}
        empty: Any = {"collections:OrderedDict": OrderedDict, "collections:defaultdict": defaultdict}
        target = template if alike else empty.get(document["class"], dict)()
        self._made[document["at"]] = target
        found = {}
        for key, part in document["items"]:
            name = self.put(key, NOTHING, path)
            found[name] = self.put(part, before.get(name, NOTHING), f"{path}[{name!r}]")
        target.clear()
        target.update({name: part for name, part in found.items() if part is not NOTHING})
        return target

    def _object(self, document: Document, template: Any, path: str) -> Any:
        if _class_name(type(template)) == document["class"]:
            target = template
        else:
            kind = _own(document["class"], path)
            target = object.__new__(kind)
        self._made[document["at"]] = target
        before = _attributes(target) or {}
        for name, part in document["state"].items():
            value = self.put(part, before.get(name, NOTHING), f"{path}.{name}")
            if value is not NOTHING:
                object.__setattr__(target, name, value)
        for name in before.keys() - document["state"].keys() - set(_transient(target)):
            object.__delattr__(target, name)
        if hasattr(type(target), "restored"):
            target.restored()
        return target


def _attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object by name; None if they cannot be read."""
    told = hasattr(value, "__dict__") or any("__slots__" in vars(kind) for kind in type(value).__mro__)
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})} if told else None


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _transient(value: Any) -> tuple[str, ...]:
    own: tuple[str, ...] = getattr(type(value), "transient", ())
    return (*own, "class_attributes") if isinstance(value, VecEnvWrapper) else own  # SB3's copy of the class itself


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _own(name: str, path: str) -> type[Any]:
    """Look up a class of safexp by name; no other is created from a file."""
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module) if module.partition(".")[0] == "safexp" else None
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or found.__module__ != module:
        raise CheckpointError(
            f"{path} holds a {name} that was created after the run started, and only safexp's own classes can be "
            "restored from a file: create it when the environment is built, or start the run over."
        )
    return found


def _new_seed(state: Any, path: str) -> np.random.SeedSequence:
    """A seed that has spawned as many others as the one in the file."""
    count(state["pool_size"], f"{path}'s pool size")  # it determines the memory
    return np.random.SeedSequence(**state)

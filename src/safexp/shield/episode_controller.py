"""Policy or controller during one episode: its call signature and its memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np


class EpisodeController:
    """Policy during one episode, with its memory if it is recurrent.

    An answer that arrives after the next episode has begun does not change the memory of that episode.
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._predicts = hasattr(policy, "predict")
        self._ask: Callable[..., Any] = policy.predict if self._predicts else policy
        self._signature = _signature(self._ask)
        takes = self._signature.parameters.keys() if self._signature else set()
        self._remembers = {"state", "episode_start", "deterministic"} <= takes
        self._state: Any = None
        self._first = True

    def check_takes(self, *shown: str) -> None:
        """Raise `TypeError` if the policy's signature does not accept these arguments, as far as it is known."""
        if self._signature is None:
            return
        try:
            self._signature.bind(*shown, **self._options())
        except TypeError as error:
            remedy = f"give show_threshold={'threshold' not in shown}"
            message = f"policy={self._policy!r} cannot be called with ({', '.join(shown)}): {error}; {remedy}."
            raise TypeError(message) from error

    def __call__(self, *seen: Any) -> Any:
        answer = self._ask(*seen, **self._options())
        if self._remembers:
            self._state, self._first = answer[1], False
        return answer[0] if self._remembers or self._predicts else answer

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"deterministic": True} if self._predicts or self._remembers else {}
        memory = {"state": self._state, "episode_start": np.array([self._first])}
        return options | memory if self._remembers else options


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:  # a function that is not written in Python
        return None

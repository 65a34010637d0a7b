"""A good log."""

from __future__ import annotations

from typing import Any

import pytest
from numpy.typing import NDArray

from support.heater import heater


@pytest.fixture(scope="session")
def good() -> dict[str, NDArray[Any]]:
    return heater()

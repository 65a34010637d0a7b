"""What all tests share: one thread each, reproducible examples, and a tiny environment."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

from support.line import Line

settings.register_profile("safexp", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("safexp")
torch.set_num_threads(1)


@pytest.fixture
def line() -> Line:
    return Line()

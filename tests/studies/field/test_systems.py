"""Systems whose packages are missing name the extra that installs them."""

from __future__ import annotations

import sys

import pytest

from safexp.core.extras import MissingExtraError
from safexp.studies.field.command import Name, system_named


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("motor", "gym_electric_motor"),
        ("highway", "highway_env"),
        ("maze", "gymnasium_robotics"),
        ("reactor", "pcgym"),
    ],
)
def test_a_missing_package_names_the_extra(name: Name, package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"the {name} of the field trials needs {package}: pip install 'safexp\[field\]'\."
    with pytest.raises(MissingExtraError, match=message):
        system_named(name).make()

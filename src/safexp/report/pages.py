"""HTML templates of the report, the audit and the doctor."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def page_template(name: str) -> Template:
    """A template of this package; it escapes every string and refuses undefined names."""
    environment = Environment(
        loader=PackageLoader("safexp.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)

"""What can be registered as a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Union, runtime_checkable

from .params import ToolDefinition


@runtime_checkable
class HasDefinition(Protocol):
    """An object that has the definition of a tool, such as a `@tool`."""

    def definition(self) -> dict[str, Any]:
        """Returns the definition."""


Definable = Union[ToolDefinition, Mapping[str, Any], HasDefinition]


def definition_of(source: Definable) -> dict[str, Any]:
    """Returns the body that registers a tool."""
    return source.definition() if isinstance(source, HasDefinition) else dict(source)

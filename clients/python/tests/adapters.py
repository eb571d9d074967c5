"""Tools that the tests of all adapters use."""

from __future__ import annotations

from toolpost import Toolpost

from .conftest import echo_tool

PROPERTIES = {"item": {"type": "string"}, "count": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["item"], "additionalProperties": False}


def register(client: Toolpost, group: str) -> None:
    """Registers tools in a group of their own: one with an approval and a dot in its name."""
    client.request("POST", "/tool-groups", json={"name": group})
    client.register(echo_tool(f"{group}.order", input_schema=SCHEMA, approval={"required": True}, groups=[group]))
    client.register(echo_tool(f"{group}_add", input_schema=SCHEMA, groups=[group]))
    client.register({
        "name": f"{group}_wait", "description": "Waits.", "groups": [group],
        "executor": {"type": "builtin", "name": "wait"},
    })

"""Docstrings in Google's style."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?|See Also|Attributes|Warnings?):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def parse(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description before the first section, and the descriptions of the arguments."""
    lines = inspect.cleandoc(text or "").splitlines()
    first = next((number for number, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    arguments: dict[str, str] = {}
    is_arguments, name = False, ""
    indent: int | None = None
    for line in lines[first:]:
        if section := _SECTION.match(line):
            is_arguments, name, indent = section[1] in ("Args", "Arguments", "Parameters"), "", None
            continue
        if not is_arguments or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        found = _ARGUMENT.match(line.strip()) if depth <= indent else None
        if found:
            name = found[1]
            arguments[name] = found[2]
        elif name:
            arguments[name] = f"{arguments[name]} {line.strip()}".strip()
    return "\n".join(lines[:first]).strip(), arguments

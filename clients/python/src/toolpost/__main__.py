"""`python -m toolpost serve MODULE[:NAME]` runs the tools of a module as a worker."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from ._tool import REGISTRY, ToolFunction
from ._worker import serve
from .errors import ToolpostError


def load(target: str) -> list[ToolFunction[Any, Any]]:
    """Returns the tools of `module` (all that it declares) or `module:name` (a tool or a list of tools)."""
    module_name, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ToolpostError(f"module {module_name!r} not found: name a module, as in `tools` or `package.tools`") from None
    if not name:
        return REGISTRY
    if not hasattr(module, name):
        raise ToolpostError(f"module {module_name!r} has no {name!r}")
    found = getattr(module, name)
    tools = [found] if isinstance(found, ToolFunction) else list(found)
    if not tools or not all(isinstance(tool, ToolFunction) for tool in tools):
        raise ToolpostError(f"{target!r} must be a tool or a list of tools")
    return tools


def main(arguments: list[str] | None = None) -> int:
    """Runs the command. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m toolpost", description="Run tools for Toolpost")
    command = parser.add_subparsers(required=True).add_parser("serve", help="run the tools of a module as a worker")
    command.add_argument("target", metavar="MODULE[:NAME]", help="the module, and optionally its tool or list of tools")
    command.add_argument("--url", help="the address of the service [env: TOOLPOST_URL]")
    command.add_argument("--queue", default="default", help="the queue [default: %(default)s]")
    command.add_argument("--concurrency", type=int, default=8, help="calls at once [default: %(default)s]")
    command.add_argument("--name", help="the name of the worker [default: host and process]")
    command.add_argument("--no-register", action="store_true", help="do not register the tools, which exist already")
    given = parser.parse_args(arguments)
    try:
        serve(
            given.url, given.queue, tools=load(given.target), concurrency=given.concurrency, name=given.name,
            register=not given.no_register,
        )
    except ToolpostError as error:
        print(f"toolpost: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

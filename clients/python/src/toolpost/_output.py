"""Results of functions as JSON that the service converts to the result of a call."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any


class ToolError(Exception):
    """An error that the model reads. It is part of a tool's work and is not logged as a fault."""

    def __init__(self, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details


@dataclasses.dataclass
class Image:
    """An image for the model."""

    data: bytes
    mime_type: str = "image/png"


@dataclasses.dataclass
class ToolResult:
    """A result in all its parts. `output` and `content` are for the model, `details` for people."""

    output: str | None = None
    content: list[Any] | None = None
    structured: Any = None
    details: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    is_error: bool = False


def output_of(value: Any) -> Any:
    """Converts what a function returned. `None` is an empty output, which the model reads as `Done`."""
    if isinstance(value, ToolResult):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        found["content"] = None if value.content is None else [_block(block) for block in value.content]
        found = {name: one for name, one in found.items() if one is not None and one is not False}
        return _plain(found if "content" in found else {"output": "", **found})
    if isinstance(value, Image):
        return {"content": [_block(value)]}
    if isinstance(value, (list, tuple)) and any(isinstance(item, Image) for item in value):
        return {"content": [_block(item) for item in value]}
    return _plain(value)


def error_output(error: BaseException) -> dict[str, Any]:
    """Converts an error to a failed result: its message, never its stack."""
    if isinstance(error, ToolError):
        found: dict[str, Any] = {"output": str(error), "is_error": True}
        return found if error.details is None else {**found, "details": _plain(error.details)}
    name = type(error).__name__
    return {"output": f"{name}: {error}" if str(error) else name, "is_error": True}


def encode(output: Any) -> bytes:
    """Returns an output as the body of a request: empty without an output.

    Half of a surrogate pair, which is not text, becomes a question mark.
    """
    if output is None:
        return b""
    text = json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _block(value: Any) -> Any:
    if isinstance(value, Image):
        data = base64.b64encode(value.data).decode()
        return {"type": "image", "data": data, "mime_type": value.mime_type}
    return {"type": "text", "text": value} if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> Any:
    """Converts a value to JSON."""
    if value is None or isinstance(value, (str, bool, int, float)) and not isinstance(value, enum.Enum):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"the result contains {type(value).__name__}, which has no JSON: return text, JSON or a dataclass")

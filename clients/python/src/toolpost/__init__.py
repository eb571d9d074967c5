"""Client, workers and framework adapters for Toolpost, a tool-execution service for LLM agents."""

from ._asgi import http_app
from ._async.client import AsyncToolpost
from ._context import Context
from ._output import Image, ToolError, ToolResult
from ._sync.client import Toolpost
from ._tool import ToolFunction, tool
from ._version import __version__
from ._worker import Worker, serve, serve_async
from .errors import (
    APIConnectionError, APIStatusError, APITimeoutError, AuthenticationError, BadRequestError, ConflictError,
    InvalidRequestError, NotFoundError, PermissionDeniedError, RateLimitError, ServiceUnavailableError, ToolpostError,
)
from .models import AnyEvent, Batch, Failure, Session, Tool, ToolCall

__all__ = [
    "APIConnectionError", "APIStatusError", "APITimeoutError", "AnyEvent", "AsyncToolpost", "AuthenticationError",
    "BadRequestError", "Batch", "ConflictError", "Context", "Failure", "Image", "InvalidRequestError", "NotFoundError",
    "PermissionDeniedError", "RateLimitError", "ServiceUnavailableError", "Session", "Tool", "ToolCall", "ToolError",
    "ToolFunction", "ToolResult", "Toolpost", "ToolpostError", "Worker", "__version__", "http_app", "serve",
    "serve_async", "tool",
]

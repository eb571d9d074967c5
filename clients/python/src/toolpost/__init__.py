"""Client, workers and framework adapters for Toolpost, a tool-execution service for LLM agents."""

from ._async.client import AsyncToolpost
from ._sync.client import Toolpost
from ._version import __version__
from .errors import (
    APIConnectionError, APIStatusError, APITimeoutError, AuthenticationError, BadRequestError, ConflictError,
    InvalidRequestError, NotFoundError, PermissionDeniedError, RateLimitError, ServiceUnavailableError, ToolpostError,
)
from .models import AnyEvent, Batch, Failure, Session, Tool, ToolCall

__all__ = [
    "APIConnectionError", "APIStatusError", "APITimeoutError", "AnyEvent", "AsyncToolpost", "AuthenticationError",
    "BadRequestError", "Batch", "ConflictError", "Failure", "InvalidRequestError", "NotFoundError",
    "PermissionDeniedError", "RateLimitError", "ServiceUnavailableError", "Session", "Tool", "ToolCall", "Toolpost",
    "ToolpostError", "__version__",
]

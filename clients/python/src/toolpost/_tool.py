"""Tools: typed functions with a definition."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ._context import Context
from ._docstring import parse
from ._output import output_of
from ._schema import Compiled, Compiler, SchemaError
from .params import Limits, RetryOverride

P = ParamSpec("P")
R = TypeVar("R")
#: All tools of this process, in the order of their declaration.
REGISTRY: list[ToolFunction[Any, Any]] = []


class ToolFunction(Generic[P, R]):
    """A function that is a tool. It can still be called as a function."""

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self._parameters: dict[str, Compiled] = {}
        self._context_name: str | None = None
        description, notes = parse(function.__doc__)
        schema, output_schema = self._schemas(notes)
        found = {"name": function.__name__, "description": description, "input_schema": schema, **options}
        if output_schema is not None:
            found.setdefault("output_schema", output_schema)
        self._definition = found

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self._definition["name"])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def definition(self, executor: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the definition that registers the tool, with the executor that runs it."""
        return dict(self._definition) | ({"executor": dict(executor)} if executor else {})

    def _schemas(self, notes: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Returns the schema of the arguments and, if the result is an object with a type, that of the result."""
        hints = _hints(self.function)
        compiler = Compiler()
        members: dict[str, Any] = {}
        required, is_open = [], False
        for name, parameter in inspect.signature(self.function).parameters.items():
            hint = hints.get(name, Any)
            if hint is Context or name == "ctx" and hint is Any:
                self._context_name = name
                continue
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                is_open = True
                continue
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
                raise SchemaError(f"parameter {name!r} of {self.function.__name__} must accept a keyword")
            hint, default = _with_field(hint, parameter.default)
            try:
                compiled = compiler.compile(hint)
            except SchemaError as error:
                raise SchemaError(f"parameter {name!r} of {self.function.__name__}: {error}") from None
            self._parameters[name] = compiled
            members[name] = _member(compiled.schema, notes.get(name), default)
            if default is inspect.Parameter.empty:
                required.append(name)
        schema: dict[str, Any] = {"type": "object", "properties": members}
        schema |= {"required": required} if required else {}
        schema |= {} if is_open else {"additionalProperties": False}
        schema |= {"$defs": compiler.definitions} if compiler.definitions else {}
        return schema, _result_schema(hints.get("return"))

    async def invoke(self, arguments: Mapping[str, Any], context: Context, executor: Executor | None = None) -> Any:
        """Runs the function with arguments from JSON. Returns its result as JSON. A sync function runs in a thread."""
        values = {name: self._converted(name, value) for name, value in arguments.items()}
        if self._context_name is not None:
            values[self._context_name] = context
        call: Callable[..., Any] = self.function
        if self.is_async:
            return output_of(await call(**values))
        variables = contextvars.copy_context()
        run = functools.partial(variables.run, functools.partial(call, **values))
        return output_of(await asyncio.get_running_loop().run_in_executor(executor, run))

    def _converted(self, name: str, value: Any) -> Any:
        return self._parameters[name].convert(value) if name in self._parameters else value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"the type hints of {function.__name__} cannot be resolved: {error}. Declare their types in the module"
        ) from None


def _with_field(hint: Any, default: Any) -> tuple[Any, Any]:
    """Resolves a default that is Pydantic's `Field(…)`."""
    fields = sys.modules.get("pydantic.fields")
    if fields is None or not isinstance(default, fields.FieldInfo):
        return hint, default
    value = inspect.Parameter.empty if default.is_required() else default.get_default(call_default_factory=True)
    return typing.Annotated[hint, default], value


def _member(schema: Mapping[str, Any], note: str | None, default: Any) -> dict[str, Any]:
    """Returns the schema of a parameter with its description and default."""
    found = dict(schema)
    if note:
        found.setdefault("description", note)
    if default is not inspect.Parameter.empty:
        try:
            found["default"] = output_of(default)
        except TypeError:
            pass  # a default that is not JSON is the function's own
    return found


def _result_schema(hint: Any) -> dict[str, Any] | None:
    if not isinstance(hint, type) or hint.__module__ in ("builtins", "toolpost._output"):
        return None
    compiler = Compiler()
    try:
        schema = compiler.compile(hint).schema
    except SchemaError:
        return None
    if schema.get("type") != "object":
        return None
    return schema | ({"$defs": compiler.definitions} if compiler.definitions else {})


@overload
def tool(function: Callable[P, R], /) -> ToolFunction[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    category: str | None = None,
    tags: Sequence[str] | None = None,
    version: str | None = None,
    groups: Sequence[str] | None = None,
    context: Sequence[str] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    timeout_ms: int | None = None,
    limits: Limits | None = None,
    retry: RetryOverride | None = None,
    approval: bool | Mapping[str, Any] | None = None,
    definition: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], ToolFunction[P, R]]: ...


def tool(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Makes a function a tool.

    The name, the description (the docstring, in Google's style) and the schema of the arguments (the type hints) come
    from the function, which may be async. A parameter with the type `Context` receives the context of the call.

    Args:
        name: The name for the model.
        context: The context objects that the tool receives, as in `context=["user"]`.
        read_only: The tool changes nothing. Its calls run side by side, and again after a failure.
        destructive: The tool may destroy something.
        idempotent: A second equal call changes nothing more.
        open_world: The tool reaches systems outside of the service.
        timeout_ms: The maximum duration of an attempt.
        approval: `True` if each call needs the approval of a person, or the settings of approvals.
        definition: Other members of the definition, as they are.
    """

    def decorate(function: Callable[P, R]) -> ToolFunction[P, R]:
        made = ToolFunction(function, _definition_options(options))
        REGISTRY.append(made)
        return made

    return decorate if function is None else decorate(function)


def _definition_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of the definition that the options of `tool` set."""
    found = {name: value for name, value in options.items() if value is not None}
    names = ("read_only", "destructive", "idempotent", "open_world")
    hints = {name: found.pop(name) for name in names if name in found}
    if hints.get("read_only"):
        hints.setdefault("destructive", False)
    timeout = found.pop("timeout_ms", None)
    limits = {**found.pop("limits", {}), **({} if timeout is None else {"timeout_ms": timeout})}
    approval = found.pop("approval", None)
    more = dict(found.pop("definition", {}))
    return {
        **found,
        **({"annotations": hints} if hints else {}),
        **({"limits": limits} if limits else {}),
        **({"approval": {"required": True} if approval is True else dict(approval)} if approval else {}),
        **more,
    }

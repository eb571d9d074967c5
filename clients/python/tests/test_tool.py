"""Definitions of functions, and the conversion of their arguments and results."""

from __future__ import annotations

import datetime
import enum
import json
import typing
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest

from toolpost import Context, Image, Toolpost, ToolResult, tool
from toolpost._docstring import parse
from toolpost._output import encode, output_of
from toolpost._schema import Compiler, SchemaError
from toolpost._tool import REGISTRY

from . import tools


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Filter(TypedDict, total=False):
    name: str


class Item(pydantic.BaseModel):
    name: str
    price: float = pydantic.Field(gt=0)


class Order(pydantic.BaseModel):
    items: list[Item]


def schema_of(hint: Any) -> dict[str, Any]:
    return Compiler().compile(hint).schema


@pytest.mark.parametrize(("hint", "schema"), [
    (str, {"type": "string"}),
    (str | None, {"type": ["string", "null"]}),
    (typing.Optional[int], {"type": ["integer", "null"]}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list, {"type": "array"}),
    (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Color, {"enum": ["red", "blue"]}),
    (Annotated[int, "A count.", {"minimum": 1}], {"type": "integer", "description": "A count.", "minimum": 1}),
    (list[int] | str, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}),
    (tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2,
                       "maxItems": 2}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (Filter, {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}),
    (datetime.date, {"type": "string", "format": "date"}),
    (Any, {}),
])
def test_type_hints_have_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


@pytest.mark.parametrize(("hint", "value", "result"), [
    (Color, "red", Color.RED),
    (Point, {"x": 1}, Point(1.0)),
    (list[Point], [{"x": 1, "y": 2, "tags": ["a"]}], [Point(1.0, 2.0, ["a"])]),
    (Point | str, "here", "here"),
    (Point | Filter, {"name": "n"}, {"name": "n"}),
    (datetime.datetime, "2026-01-31T12:00:00Z", datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)),
    (uuid.UUID, "01a21406-4954-7774-85c3-83660e96b000", uuid.UUID("01a21406-4954-7774-85c3-83660e96b000")),
    (Decimal, 1.5, Decimal("1.5")),
    (bytes, "aGk=", b"hi"),
    (set[int], [1, 2], {1, 2}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (int, 2.0, 2),
    (bool | int, True, True),
    (int | bool, True, True),
    (Sequence[float], [1], [1.0]),
    (Item, {"name": "pen", "price": 2}, Item(name="pen", price=2)),
])
def test_arguments_are_converted_to_their_types(hint: Any, value: Any, result: Any) -> None:
    found = Compiler().compile(hint).convert(value)
    assert found == result and type(found) is type(result)


def test_definition_comes_from_the_function() -> None:
    definition = tools.get_weather.definition()
    assert definition["name"] == "get_weather"
    assert definition["description"] == "Returns the weather of a city."
    assert definition["input_schema"] == {
        "type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {
            "city": {"type": "string", "description": "The name of the city."},
            "days": {"type": "integer", "description": "The days to look ahead.", "default": 1},
        },
    }
    assert definition["output_schema"]["required"] == ["celsius", "sky"]
    assert definition["annotations"] == {"read_only": True, "destructive": False}
    assert tools.get_weather("Oslo") == tools.Weather(19.0, "cloudy")


def test_context_is_no_argument_of_the_model() -> None:
    definition = tools.greet.definition()
    assert list(definition["input_schema"]["properties"]) == ["greeting"]
    assert definition["context"] == ["user"]


async def test_tool_can_be_tested_with_a_context() -> None:
    assert await tools.greet(Context(context={"user": {"name": "Ada"}})) == "Hello, Ada"
    context = Context()
    assert await tools.count(2, context) == "counted to 2"
    assert [report["progress"]["current"] for report in context.reports if "progress" in report] == [1, 2]


def test_pydantic_models_are_arguments(client: Toolpost, unique: str) -> None:
    @tool(name=unique, definition={"executor": {"type": "builtin", "name": "echo"}})
    def buy(order: Order, rush: Annotated[int, pydantic.Field(ge=0, le=3)] = 0, note: str = pydantic.Field("", max_length=5)) -> Item:
        """Buys."""
        return order.items[0]

    REGISTRY.remove(buy)
    schema = buy.definition()["input_schema"]
    assert schema["properties"]["rush"] == {"type": "integer", "minimum": 0, "maximum": 3, "default": 0}
    assert schema["properties"]["note"]["maxLength"] == 5 and schema["required"] == ["order"]
    assert buy.definition()["output_schema"]["title"] == "Item"
    # The service compiles the schema, and applies it.
    client.register(buy)
    assert client.call(unique, {"order": {"items": [{"name": "pen", "price": 1}]}}).status == "SUCCESS"
    failed = client.call(unique, {"order": {"items": [{"name": "pen", "price": -1}]}})
    assert "/order/items/0/price" in str(failed.output)


async def test_pydantic_arguments_arrive_as_models() -> None:
    @tool(name="pay")
    async def pay(order: Order) -> str:
        return type(order.items[0]).__name__

    REGISTRY.remove(pay)
    assert await pay.invoke({"order": {"items": [{"name": "pen", "price": 1}]}}, Context()) == "Item"


def test_type_without_a_schema_names_the_parameter() -> None:
    with pytest.raises(SchemaError, match="parameter 'when' of bad: .*complex.*use a type of JSON"):
        @tool
        def bad(when: complex) -> None: ...

    with pytest.raises(SchemaError, match="must accept a keyword"):
        @tool
        def worse(*parts: str) -> None: ...


def test_docstring_sections_are_read() -> None:
    description, arguments = parse("""Sends a mail.

    It may take a while.

    Args:
        to (str): The receiver,
            as an address.
        **more: Anything.

    Returns:
        The id.
    """)
    assert description == "Sends a mail.\n\nIt may take a while."
    assert arguments == {"to": "The receiver, as an address.", "more": "Anything."}


@pytest.mark.parametrize(("value", "body"), [
    ("text", '"text"'),
    ("北京 \U0001f600 \0 \ud800", '"北京 😀 \\u0000 ?"'),
    (None, ""),
    (Point(1, 2), '{"x":1,"y":2,"tags":[]}'),
    ([Color.RED, datetime.date(2026, 1, 2)], '["red","2026-01-02"]'),
    (Item(name="pen", price=1), '{"name":"pen","price":1.0}'),
    (ToolResult("t", details={"a": 1}), '{"output":"t","details":{"a":1}}'),
    (ToolResult(structured=[1], is_error=True), '{"output":"","structured":[1],"is_error":true}'),
])
def test_results_become_json(value: Any, body: str) -> None:
    assert encode(output_of(value)).decode() == body


def test_image_becomes_a_block() -> None:
    found = json.loads(encode(output_of(["a dot", Image(tools.DOT)])))
    assert [block["type"] for block in found["content"]] == ["text", "image"]


def test_result_that_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError, match="object, which has no JSON"):
        output_of({"a": object()})

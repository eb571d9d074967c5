"""Tools of the tests, also for `python -m toolpost serve tests.tools`."""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass

from toolpost import Context, Image, ToolError, ToolResult, tool


@dataclass
class Weather:
    celsius: float
    sky: str


@tool(read_only=True)
def get_weather(city: str, days: int = 1) -> Weather:
    """Returns the weather of a city.

    Args:
        city: The name of the city.
        days: The days to look ahead.
    """
    if city == "Atlantis":
        raise ToolError("no weather for Atlantis")
    return Weather(18.0 + days, "cloudy")


@tool(context=["user"])
async def greet(ctx: Context, greeting: str = "Hello") -> str:
    """Greets the user."""
    return f"{greeting}, {ctx.context['user']['name']}"


@tool
async def count(to: int, ctx: Context) -> str:
    """Counts and reports progress."""
    for number in range(1, to + 1):
        ctx.progress(number, to, f"at {number}")
        await asyncio.sleep(0.02)
    ctx.report(content="nearly done", details={"to": to})
    return f"counted to {to}"


@tool
def fail() -> None:
    """Fails with a fault of the function."""
    raise KeyError("inventory")


@tool
def nothing() -> None:
    """Returns nothing."""


@tool
def draw() -> list[object]:
    """Draws a dot."""
    return ["a dot:", Image(DOT)]


@tool
def explain() -> ToolResult:
    """Explains for people."""
    return ToolResult("short", details={"long": "story"}, structured={"n": 1})


#: What the tools that wait have noticed.
noticed: list[str] = []


@tool
async def sleep_async(ctx: Context) -> str:
    """Waits until it is cancelled."""
    noticed.append(f"begun {ctx.id}")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        noticed.append(f"cancelled {ctx.id}")
        raise
    return "slept"


@tool
def sleep_sync(ctx: Context) -> str:
    """Looks whether it is cancelled."""
    noticed.append(f"begun {ctx.id}")
    while not ctx.cancelled:
        time.sleep(0.01)
    noticed.append(f"cancelled {ctx.id}")
    return "slept"


DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)

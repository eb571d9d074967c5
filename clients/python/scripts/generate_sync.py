#!/usr/bin/env python3
"""Writes the sync client `_sync` from the async client `_async`.

    python clients/python/scripts/generate_sync.py [--check]

`--check` writes nothing and exits with 1 if a file is not current.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "toolpost"
RULES = (
    (r'"""The asynchronous client\. `_sync`.*"""', '"""The sync client. Generated from `_async` by scripts/generate_sync.py."""'),
    (r"The asynchronous client", "The sync client"),
    (r"import asyncio\n", "import time\n"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"asynccontextmanager", "contextmanager"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"aiter_lines", "iter_lines"),
    (r"\.aread\(", ".read("),
    (r"\.aclose\(", ".close("),
    (r"\bAsync(Iterator|Base|Client|Toolpost|Sessions|Approvals)\b", r"\1"),
    (r"\bapeek\b", "peek"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
)


def sync(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


def main() -> int:
    stale = 0
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        target, text = PACKAGE / "_sync" / source.name, sync(source.read_text())
        if target.exists() and target.read_text() == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"_sync/{source.name} is not current: run clients/python/scripts/generate_sync.py", file=sys.stderr)
            stale = 1
        else:
            target.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())

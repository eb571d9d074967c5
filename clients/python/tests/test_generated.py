"""The generated files are those that their scripts write."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import PACKAGE


@pytest.mark.parametrize("script", ["generate_types.py", "generate_sync.py"])
def test_generated_files_are_current(script: str) -> None:
    run = subprocess.run([sys.executable, PACKAGE / "scripts" / script, "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

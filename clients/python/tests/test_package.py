"""The wheel and the sdist, installed into clean environments."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import httpx
import pytest

from .conftest import PACKAGE, Service

PROGRAM = """
import sys
import toolpost
assert toolpost.__file__.startswith(sys.prefix), toolpost.__file__
with toolpost.Toolpost(sys.argv[1]) as client:
    print(client.call("calculate", {"expression": "6 * 7"}).output)
try:
    import toolpost.adapters.langchain
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel, which is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PACKAGE)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def test_packages_have_what_they_need(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "toolpost/py.typed" in names and "toolpost/_sync/client.py" in names
    assert not [name for name in names if not name.startswith("toolpost")]
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert needed == ["Requires-Dist: httpx<1,>=0.27"]
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        files = {name.split("/", 1)[1] for name in sdist.getnames()}
    assert {"README.md", "pyproject.toml", "src/toolpost/py.typed"} <= files
    assert not [name for name in files if "venv" in name or name.startswith("tests")]


def test_wheel_works_in_a_clean_environment(built: Path, tmp_path: Path, service: Service) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    # Without the network, the one dependency and what it needs come from this environment.
    packages = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    source = Path(httpx.__file__).parents[1]
    for name in ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio", "typing_extensions.py"):
        if (source / name).exists():
            (packages / name).symlink_to(source / name)
    install = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv"), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, str(next(built.glob("*.whl")))], check=True, cwd=tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    run = subprocess.run([python, "-I", "-c", PROGRAM, service.url], capture_output=True, text=True, cwd=tmp_path)
    assert run.stdout.split() == ["42", "langchain_core"], run.stderr
    version = subprocess.run([tmp_path / "venv" / "bin" / "toolpost-worker", "--help"], capture_output=True, text=True)
    assert "serve" in version.stdout

"""Two distributions: a client installs one package, `tacit`, and nothing else of ours."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import tacit
import tacit.client

ROOT = Path(__file__).parents[2]
SERVICES = ("common", "algorithms", "curator", "aggregator", "coordinator", "simulation", "cli")
LIBRARIES = {
    *("fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "asyncpg"),
    *("structlog", "typer", "pydantic_settings", "prometheus_client", "cbor2"),
}
"""What only services use (rich is loaded by httpx itself where it is installed)."""


def names_in(wheel: Path) -> set[str]:
    """Top-level names that a wheel installs, without its metadata."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    return {top for top in tops if not top.endswith(".dist-info")}


def build(source: Path, target: Path) -> Path:
    """The wheel of a distribution, built as pip builds it."""
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q"]
    pip = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(target), str(source)]
    subprocess.run(pip, check=True, capture_output=True, cwd=target)
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "tacit", tmp_path_factory.mktemp("library"))


def test_the_client_s_wheel_installs_one_name(library: Path):
    assert names_in(library) == {"tacit"}
    content = set(zipfile.ZipFile(library).namelist())
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "tacit").rglob("*.py")}
    assert modules | {"tacit/py.typed"} == {name for name in content if ".dist-info/" not in name}


def test_the_services_wheel_holds_no_library(tmp_path: Path):
    assert names_in(build(ROOT, tmp_path)) == set(SERVICES)


def test_tacit_is_imported_beside_a_user_s_own_modules(library: Path, tmp_path: Path):
    """In an environment that has only the client's wheel, beside modules of the same names as
    ours."""
    zipfile.ZipFile(library).extractall(tmp_path / "site")
    for name in SERVICES:
        (tmp_path / f"{name}.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "script.py").write_text(
        "import sys\n"
        f"sys.path.insert(1, {str(tmp_path / 'site')!r})\n"
        "import tacit, common\n"
        "assert tacit.__file__.startswith(sys.path[1]), tacit.__file__\n"
        "tacit.Client, tacit.AsyncClient, tacit.BudgetExceeded\n"
        "assert common.MINE == 'common'\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"tacit", "httpx"} <= loaded
    assert not loaded & ({*SERVICES, *LIBRARIES} - {"common"})


def test_a_part_of_the_library_brings_no_client():
    command = [sys.executable, "-c", "import sys, tacit.noise; print(*sys.modules)"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert "tacit.noise" in loaded
    assert not loaded & {"httpx", "tacit.client"}


def test_the_client_loads_no_proofs_and_the_proofs_load_no_client():
    """pycryptodome belongs to the extra `proofs`: a client is installed without it."""
    for loading, absent in (
        ("tacit; tacit.Client", {"Crypto", "tacit.validity"}),
        ("tacit.validity.prio3", {"httpx", "tacit.client", "numba"}),
    ):
        name, _, used = loading.partition("; ")
        program = f"import sys, {name}; {used or 'pass'}; print(*sys.modules)"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        assert not absent & set(done.stdout.split())


def test_the_client_s_names_are_the_library_s():
    assert tacit.__all__ == tacit.client.__all__
    assert all(getattr(tacit, name) is getattr(tacit.client, name) for name in tacit.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tacit.nothing  # noqa: B018


def test_both_distributions_have_one_version():
    library, services = (
        tomllib.loads((ROOT / place / "pyproject.toml").read_text())["project"]
        for place in ("tacit", ".")
    )
    assert library["version"] == services["version"]
    assert f"tacit=={library['version']}" in services["dependencies"]
    assert library["optional-dependencies"]["services"] == [
        f"tacit-services=={services['version']}"
    ]


def test_the_library_s_dependencies_are_locked_for_every_image():
    project = tomllib.loads((ROOT / "tacit" / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[a-z-]+", each)[0] for each in project["dependencies"]}  # type: ignore[index]
    for role in ("curator", "aggregator", "coordinator"):
        lock = (ROOT / "deploy" / "requirements" / f"{role}.lock").read_text()
        assert needed <= set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)), role

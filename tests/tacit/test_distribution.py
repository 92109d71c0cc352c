"""Two distributions, neither of which needs the other: `tacit-aggregation` is everything, and
`tacit-aggregation-client` one package, `tacit`. Both are installed from a clone, and no file names
a distribution that is not ours: `tacit` on the public index is another project."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.version import VERSION

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


@pytest.mark.slow
def test_the_client_s_wheel_installs_one_name(library: Path):
    assert names_in(library) == {"tacit"}
    content = set(zipfile.ZipFile(library).namelist())
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "tacit").rglob("*.py")}
    assert modules | {"tacit/py.typed"} == {name for name in content if ".dist-info/" not in name}


@pytest.mark.slow
def test_the_wheel_of_everything_holds_the_library_too(library: Path, tmp_path: Path):
    """So `pip install .` in a clone fetches nothing that we would have to publish."""
    everything = build(ROOT, tmp_path)
    assert names_in(everything) == {"tacit", *SERVICES}
    modules, ours = (
        {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("tacit/")}
        for wheel in (library, everything)
    )
    assert modules == ours


def test_tacit_is_imported_beside_a_user_s_own_modules(tmp_path: Path):
    """In an environment that has only the client's files, beside modules of the same names as
    ours."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "tacit").symlink_to(ROOT / "tacit")
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


def project(place: str = ".") -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / place / "pyproject.toml").read_text())
    return found


def required(table: dict[str, Any]) -> set[str]:
    """Every requirement of a project, also those of its extras and its groups (a group that another
    includes is read by itself)."""
    lists = [
        table["project"]["dependencies"],
        *table["project"]["optional-dependencies"].values(),
        *table.get("dependency-groups", {}).values(),
    ]
    return {item for some in lists for item in some if isinstance(item, str)}


def test_neither_distribution_needs_one_named_like_it_and_all_has_what_the_client_has():
    everything, client = required(project()), required(project("tacit"))
    assert not [each for each in everything | client if each.startswith("tacit")]
    assert client <= everything


FILES = {".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".html", ".js", ".lock", ".in", ".json", ""}
NOT_OURS = re.compile(
    r"tacit[-_]services"
    r"|(?<![\w./-])tacit(?:\[[a-z]|\s*[=~<>]=)"  # an extra or a version of a distribution `tacit`
    r"|\bpip3?\b[^\n]*? (?:install|download|wheel)\b[^\n`]*?"
    r"[\s'\"]tacit(?!-aggregation(?:-client)?\b)(?![\w./-])"
)
INSTALLED = re.compile(
    r"\bpip3? install [^\n`]*?'(\./tacit|\.|tacit-aggregation\S*?)\[([a-z,]+)\]'"
)


def texts() -> Iterator[tuple[str, str]]:
    """The repository's files but this one and the history of changes."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        skipped = name == "CHANGELOG.md" or path == Path(__file__)
        if path.suffix in FILES and path.is_file() and not skipped:
            yield name, path.read_text(encoding="utf-8")


def test_no_file_names_a_distribution_that_is_not_ours():
    for wrong in (
        "pip install 'tacit-services[x]'",
        "tacit[proofs]",
        "tacit==1",
        "pip install tacit",
    ):
        assert NOT_OURS.search(wrong), wrong
    for right in ("pip install ./tacit", "bin/pip install -r tacit-aggregation", "x.tacit[0]"):
        assert not NOT_OURS.search(right), right
    named = {name: found[0] for name, text in texts() if (found := NOT_OURS.search(text))}
    assert named == {}


def test_every_extra_that_a_file_tells_to_install_exists():
    extras = {
        ".": set(project()["project"]["optional-dependencies"]),
        "./tacit": set(project("tacit")["project"]["optional-dependencies"]),
    }
    told = [
        (name, place, extra)
        for name, text in texts()
        for place, listed in INSTALLED.findall(text)
        for extra in listed.split(",")
    ]
    assert {place for _, place, _ in told} == set(extras)
    assert [each for each in told if each[2] not in extras[each[1]]] == []
    for name, text in texts():
        if name.endswith(".py") and not name.startswith("tests/"):
            for extra in re.findall(r"extra_needed\([^)]*, \"(\w+)\"\)", text):
                assert extra in extras["."], (name, extra)


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("3.11", marks=pytest.mark.slow),
        pytest.param("3.12", marks=pytest.mark.release),
        pytest.param("3.13", marks=pytest.mark.release),
    ],
)
def test_a_clone_is_installed_by_pip_alone(version: str, tmp_path: Path):
    """In a fresh environment, from this machine's index: nothing of ours is fetched from it."""
    python = interpreter(version)
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    pip = [str(programs / "pip"), "--disable-pip-version-check", "-q"]
    options = {"capture_output": True, "text": True, "cwd": tmp_path}
    probe = [*pip, "download", "--no-deps", "-d", str(tmp_path / "probe"), "hatchling"]
    if subprocess.run(probe, **options).returncode:  # type: ignore[call-overload]
        pytest.skip("no package index answers")
    report = tmp_path / "report.json"
    install = [*pip, "install", "--report", str(report), str(ROOT)]
    done = subprocess.run(install, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    installed = json.loads(report.read_text())["install"]
    ours = [each for each in installed if each["metadata"]["name"].startswith("tacit")]
    assert [each["metadata"]["name"] for each in ours] == ["tacit-aggregation"]
    assert ours[0]["download_info"]["url"] == ROOT.as_uri()
    for words, said in (("--version", f"tacit {VERSION}\n"), ("up --help", "tacit up")):
        done = subprocess.run([programs / "tacit", *words.split()], **options)  # type: ignore[call-overload]
        assert (done.returncode, said in done.stdout) == (0, True), done.stdout + done.stderr
    code = "import tacit; tacit.Client; print(tacit.__file__)"
    done = subprocess.run([programs / "python", "-c", code], **options)  # type: ignore[call-overload]
    assert Path(done.stdout.strip()).is_relative_to(tmp_path), done.stderr


def interpreter(version: str) -> str:
    """A Python of this version, on the path or of pyenv; skips where there is none."""
    name = f"python{version}"
    managed = Path.home().joinpath(".pyenv", "versions").glob(f"{version}.*/bin/{name}")
    for found in (shutil.which(name), *map(str, managed)):
        if found and not subprocess.run([found, "--version"], capture_output=True).returncode:
            return found
    pytest.skip(f"no Python {version} on this machine")


def test_the_library_s_dependencies_are_locked_for_every_image():
    listed = project("tacit")["project"]["dependencies"]
    needed = {re.match(r"[a-z-]+", each)[0] for each in listed}  # type: ignore[index]
    for role in ("curator", "aggregator", "coordinator"):
        lock = (ROOT / "deploy" / "requirements" / f"{role}.lock").read_text()
        assert needed <= set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)), role

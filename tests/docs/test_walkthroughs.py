"""Every command and every number of the pages that lead a reader through a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running, free_ports, pair
from cli.services.up import service_settings
from tests.docs.walkthrough import pattern_of, plain, steps_of, walk

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_tutorial_is_true(tmp_path: Path) -> None:
    walk(DOCS / "tutorial" / "first-private-sum.md", tmp_path, {})


@pytest.mark.slow
def test_the_run_by_curl_is_true(tmp_path: Path) -> None:
    names = ("COORDINATOR", "AGGREGATOR_1", "AGGREGATOR_2", "AGGREGATOR_3", "CURATOR")
    ports = zip(names, free_ports(len(names)), strict=True)
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    walk(DOCS / "how-to" / "curl.md", tmp_path, {f"{name}_PORT": str(port) for name, port in ports})


@pytest.mark.slow
def test_a_service_by_itself(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    walk(DOCS / "how-to" / "run-services.md", tmp_path, {"AGGREGATOR_1_PORT": str(port)})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["how-to/backup", "how-to/deploy", "how-to/upgrade", "spec/keys"])
def test_a_page_that_starts_its_own_services(tmp_path: Path, name: str) -> None:
    names = ("COORDINATOR", "AGGREGATOR_1")
    ports = zip(names, free_ports(len(names)), strict=True)
    around = {f"{each}_PORT": str(port) for each, port in ports} | {"COLUMNS": "110"}
    walk(DOCS / f"{name}.md", tmp_path, around)


@pytest.mark.slow
def test_two_operators_on_one_machine(tmp_path: Path) -> None:
    centre, north = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    around = {"CENTRE": centre, "NORTH": north, "COLUMNS": "110"}
    walk(DOCS / "how-to" / "two-operators.md", tmp_path, around)


FAST = ("python-client", "load-profiles")
"""Pages whose curators send at once, not at a moment of their own."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("enrol-curators", "import-readings", "policies-and-budgets"),
        *(("datasets",), ("federated-jobs",), ("find-polluters",)),
        *(("groups-and-differencing",), ("proved-contributions",), ("tables",)),
        *(("python-client",), ("load-profiles",)),
    ],
    ids=" ".join,
)
def test_pages_with_a_deployment_of_their_own(tmp_path: Path, names: tuple[str, ...]) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    deployment = Deployment.plan(home, 3)
    deployment.save()
    running = Running(deployment, service_settings() if names[0] in FAST else {})
    try:
        running.start()
        pair(deployment)
        for name in names:
            walk(DOCS / "how-to" / f"{name}.md", tmp_path, {"COLUMNS": "110"})
    finally:
        running.stop()


def test_blocks_and_what_they_print() -> None:
    page = (
        "Words.\n```bash exit=3\nfalse\n```\n\n```text\na ... c\n...\nend\n```\n```json\n{}\n```\n"
    )
    (step,) = steps_of(page)
    assert (step.script, step.exit_code, step.line) == ("false", 3, 2)
    assert step.expected is not None
    pattern = pattern_of(step.expected)
    assert pattern.fullmatch(plain("a b c  \nx\ny\nend\n\n"))
    assert pattern.fullmatch(plain("a b c\nend"))
    assert not pattern.fullmatch(plain("a b d\nend"))
    assert not pattern.fullmatch(plain("a b c\nend\nmore"))


def test_a_text_after_prose_is_no_output() -> None:
    (step,) = steps_of("```bash\ntrue\n```\nFor example:\n```text\nanything\n```\n")
    assert step.expected is None

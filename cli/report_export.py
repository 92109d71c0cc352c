"""`tacit report`: a privacy report as evidence that others can cite."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_args

import typer

from cli.context import Answer, at_coordinator, fail
from tacit import Client, NotFound, Problem
from tacit.report.export import (
    OrganisationType,
    Publication,
    Sector,
    linked_data,
    registry_record,
)
from tacit.report.model import PrivacyReport

app = typer.Typer(no_args_is_help=True, help="Privacy reports as evidence that others can cite.")


class Form(StrEnum):
    """How a report is exported."""

    JSON_LD = "json-ld"
    OPENDP_REGISTRY = "opendp-registry"


@dataclass(frozen=True)
class Stated:
    """What the publisher states, as no report knows it."""

    organisation: Annotated[str, typer.Option(help="Who publishes the result.")]
    region: Annotated[str, typer.Option(help="Where the data is from, or whose law applies.")]
    use: Annotated[str, typer.Option(help="What the result is meant for.")]
    organisation_type: Annotated[
        str, typer.Option(help=", ".join(get_args(OrganisationType)) + ".")
    ] = "Industry"
    sector: Annotated[str | None, typer.Option(help=", ".join(get_args(Sector)) + ".")] = None
    name: Annotated[str | None, typer.Option(help="Of the result; else of its query or job.")] = (
        None
    )
    description: Annotated[str | None, typer.Option(help="In a few words; else made up.")] = None
    author: Annotated[str | None, typer.Option(help="Of this record; else the publisher.")] = None


@app.command("export")
@at_coordinator
def export(
    client: Client,
    subject: Annotated[str, typer.Argument(metavar="ROUND|JOB", help="Id of a result.")],
    form: Annotated[Form, typer.Option("--format", help="What to make of it.")],
    stated: Stated,
    out: Annotated[Path | None, typer.Option(help="A file; else it is printed.")] = None,
) -> Answer:
    """Write a result's privacy report as JSON-LD, or as a draft record for the public registry of
    differential-privacy deployments, whose YAML it is. The address in it is the report's digest."""
    for option, option_value, choices in (
        ("--organisation-type", stated.organisation_type, get_args(OrganisationType)),
        ("--sector", stated.sector, get_args(Sector)),
    ):
        if option_value is not None and option_value not in choices:
            fail(f"{option}: one of {', '.join(choices)}")
    report, name, published, described = _result(client, subject)
    publication = Publication(
        name=stated.name or name,
        organisation=stated.organisation,
        organisation_type=stated.organisation_type,  # type: ignore[arg-type]
        published=published,
        description=stated.description or described,
        intended_use=stated.use,
        region=stated.region,
        author=stated.author or stated.organisation,
        sector=stated.sector,  # type: ignore[arg-type]
    )
    exporter = linked_data if form is Form.JSON_LD else registry_record
    text = json.dumps(exporter(report, publication), indent=2, ensure_ascii=False)
    if out is None:
        return Answer(json.loads(text), lambda: typer.echo(text))
    out.write_text(f"{text}\n", encoding="utf-8")
    return Answer({"written": str(out)}, lambda: typer.echo(f"written to {out}"))


def _result(client: Client, subject: str) -> tuple[PrivacyReport, str, str, str]:
    """The report of a round or a job, the name and the day of its result, and a description."""
    try:
        result = client.rounds.result(subject)
    except NotFound:
        return _job(client, subject)
    query = client.queries.get(result.query_id)["query"]
    day = str(client.rounds.get(subject)["finished"])[:10]
    described = (
        f"A noisy {result.function.replace('_', ' ')} in {result.unit} over {result.participants} "
        f"curators, from {result['window']['start']} to {result['window']['end']}."
    )
    return _model(result["report"]), query["name"], day, described


def _job(client: Client, subject: str) -> tuple[PrivacyReport, str, str, str]:
    try:
        job = client.jobs.get(subject)
    except Problem as problem:
        if problem.name != "unknown_job":
            raise
        fail(f"there is no round and no job {subject}")
    report = _model(dict(client.jobs.report(subject)))
    over = "a dataset" if job.dataset else "curators"
    day = str(job["finished"])[:10]
    return report, job.algorithm, day, f"The result of {job.algorithm} over {over}."


def _model(document: object) -> PrivacyReport:
    return PrivacyReport.model_validate_json(json.dumps(document, default=dict))

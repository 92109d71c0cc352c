"""Reports as evidence: every statement is in them, and the registry's schema takes the record."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tacit.report.export import Publication, address, linked_data, registry_record
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report
from tests.tacit.examples import METERED, query

TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "number"}


def closed(required: str, **properties: object) -> dict[str, object]:
    """An object with these fields alone; those named in `required` must be there."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required.split(),
    }


def one_of(*texts: str) -> dict[str, object]:
    return {"enum": list(texts)}


# What schemas/deployments-schema.yaml of the registry asks for at commit 057e5d8.
SCHEMA = closed(
    "url_slug deployment",
    url_slug=TEXT,
    deployment=closed(
        "basic administrative",
        basic=closed(
            "name data_curators description intended_use data_product_type data_product_region "
            "publication_date",
            name=TEXT,
            data_curators={
                "type": "array",
                "minItems": 1,
                "items": closed(
                    "data_curator_name data_curator_type",
                    data_curator_name=TEXT,
                    data_curator_type=one_of("Government", "Industry", "Nonprofit"),
                ),
            },
            description=TEXT,
            intended_use=TEXT,
            data_product_type=one_of("Summary statistics", "Dataset", "Synthetic data"),
            data_product_region=TEXT,
            data_product_sector=one_of("Technology", "Healthcare", "Energy"),
            publication_date={"type": "string", "format": "date"},
        ),
        dp_variant=closed(
            "",
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Custom"),
            unprotected_quantities=TEXT,
        ),
        privacy_loss=closed(
            "",
            privacy_unit=TEXT,
            privacy_unit_details=TEXT,
            privacy_parameters=closed("", epsilon=NUMBER, delta=NUMBER, rho=NUMBER),
            privacy_parameters_details=TEXT,
        ),
        deployment_model=closed(
            "",
            model_name=one_of("Local", "Central", "Federated"),
            trust_assumptions=TEXT,
            release_type=one_of("One release"),
            release_type_details=TEXT,
            access_type=one_of("Non-interactive"),
        ),
        implementation=closed(
            "", mechanisms=TEXT, composition=TEXT, post_processing=TEXT, additional_information=TEXT
        ),
        administrative=closed(
            "status registry_authors tier",
            status=one_of("Draft"),
            registry_authors={"type": "array", "items": TEXT, "minItems": 1},
            tier=one_of(3),  # type: ignore[arg-type]
        ),
    ),
)
PUBLICATION = Publication(
    name="evening load",
    organisation="Grid North",
    organisation_type="Industry",
    published="2026-01-06",
    description="The load of one evening.",
    intended_use="planning",
    region="EU",
    author="A. Engineer",
    sector="Energy",
)
NOISY = {**METERED, "min_participants": 50}
GAUSSIAN = {
    **NOISY, "epsilon": None, "noise": "gaussian", "rho": "0.01", "delta": "0.000001",
    "collusion": {"aggregators": 2, "curators": 0},
}  # fmt: skip
EXACT = {**NOISY, "mechanism": "exact", "epsilon": None}


def report_of(changes: dict[str, Any]) -> PrivacyReport:
    asked = query(**changes)
    return query_report(asked, subject=Subject(kind="round", id="r"), participants=60)


@pytest.mark.parametrize(
    ("fields", "variant", "parameters"),
    [
        (NOISY, "Pure DP", {"epsilon": 1.0, "delta": 0.0}),
        (GAUSSIAN, "Zero-concentrated DP", {"rho": 0.01}),
        (EXACT, "Custom", {}),
    ],
    ids=["laplace", "gaussian", "exact"],
)
def test_a_record_of_the_registry(
    fields: dict[str, Any], variant: str, parameters: dict[str, float]
) -> None:
    report = report_of(fields)
    record = json.loads(json.dumps(registry_record(report, PUBLICATION)))
    jsonschema.validate(record, SCHEMA, format_checker=jsonschema.FormatChecker())
    deployment = record["deployment"]
    assert deployment["dp_variant"]["variant_name"] == variant
    stated = deployment["privacy_loss"]["privacy_parameters"]
    assert {name: stated[name] for name in parameters} == parameters
    assert bool(stated) == bool(parameters)
    told = deployment["privacy_loss"]["privacy_parameters_details"]
    for line in report.verified:
        assert (line.description or line.scenario) in told
        assert line.epsilon == "inf" or f"epsilon {line.epsilon}" in told
    assert all(
        text in deployment["dp_variant"]["unprotected_quantities"] for text in report.not_protected
    )
    assert address(report) in deployment["implementation"]["additional_information"]


def test_linked_data_has_every_statement_and_the_report_itself() -> None:
    report = report_of(NOISY)
    document = json.loads(json.dumps(linked_data(report, PUBLICATION)))
    value = document["additionalProperty"]["value"]
    kept = PrivacyReport.model_validate_json(json.dumps(value))
    assert kept == report
    assert document["@id"] == address(kept) == address(report)
    assert address(report) != address(report_of({**NOISY, "epsilon": "2"}))
    names = [item["name"] for item in document["variableMeasured"]]
    assert names.count("privacy, verified") == len(report.verified)
    assert names.count("privacy, claimed") == (report.claimed is not None)

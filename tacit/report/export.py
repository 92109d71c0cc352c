"""A privacy report as evidence that others can cite: JSON-LD, and a record of the public registry
of differential-privacy deployments.

Both name the report by an address that does not change, `urn:tacit:report:sha256:DIGEST` of its
canonical form, and have what is claimed and what is verified. Vocabulary: schema.org. The
registry's schema: schemas/deployments-schema.yaml at 057e5d8 of
github.com/opendp/deployments-registry-data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from tacit.report.model import Claim, Model, Neighbouring, PrivacyReport, VerifiedStatement
from tacit.version import VERSION

OrganisationType = Literal["Government", "Industry", "Nonprofit"]
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]

_VARIANTS: Final[dict[Model, str]] = {
    "pure-dp": "Pure DP",
    "approximate-dp": "Approximate DP",
    "zcdp": "Zero-concentrated DP",
}
_NEIGHBOURS: Final[dict[Neighbouring | None, str]] = {
    "add-remove": "the data of one unit are there or are not",
    "replace": "the data of one unit are replaced by any other",
    "any-two-values": "one unit has any two values in its bounds",
    "same-rest": "all but one unit are the same",
}
_PRODUCTS: Final = {
    **dict.fromkeys(
        ("sequential-ngram", "sequential-prefix-tree", "set-valued", "graph-der"), "Synthetic data"
    ),
    **dict.fromkeys(("trajectory-kcl", "path-publishing"), "Dataset"),
}
_STATED_FIRST: Final = "e"
"""The key of what holds under the query's own assumption."""


@dataclass(frozen=True)
class Publication:
    """What the publisher states of a release because its report does not have it. `published`: a
    date, YYYY-MM-DD. `description`, `intended_use`, `region`: free text."""

    name: str
    organisation: str
    organisation_type: OrganisationType
    published: str
    description: str
    intended_use: str
    region: str
    author: str
    sector: Sector | None = None


def address(report: PrivacyReport) -> str:
    """The name of a report, whoever keeps it: the same for the same content."""
    return f"urn:tacit:report:sha256:{report.digest().hex()}"


def linked_data(report: PrivacyReport, publication: Publication) -> dict[str, Any]:
    """The release as a schema.org Dataset in JSON-LD, each statement as a property of its own."""
    statements: list[tuple[str, str | None, Claim | VerifiedStatement]] = [
        *([] if report.claimed is None else [("claimed", report.claimed.theorem, report.claimed)]),
        *(("verified", line.description or line.scenario, line) for line in report.verified),
    ]
    return {
        "@context": "https://schema.org",
        "@type": "Dataset",
        "@id": address(report),
        "name": publication.name,
        "description": publication.description,
        "creator": {"@type": "Organization", "name": publication.organisation},
        "datePublished": publication.published,
        "spatialCoverage": publication.region,
        "measurementTechnique": _mechanism(report),
        "variableMeasured": [
            {
                "@type": "PropertyValue",
                "name": f"privacy, {kind}",
                "description": str(description or "no theorem is named"),
                "value": [
                    {"@type": "PropertyValue", "name": name, "value": value}
                    for name, value in (
                        ("model", line.model),
                        ("epsilon", line.epsilon),
                        ("delta", line.delta),
                    )
                    if value is not None
                ],
            }
            for kind, description, line in statements
        ],
        "usageInfo": [*report.not_protected, *report.caveats],
        "additionalProperty": {
            "@type": "PropertyValue",
            "name": "privacy report",
            "value": report.model_dump(mode="json", exclude_none=True),
        },
    }


def registry_record(report: PrivacyReport, publication: Publication) -> dict[str, Any]:
    """A draft record of the registry, as JSON, which is also YAML. For an infinite or absent
    guarantee it has no parameters and says why."""
    line = _stated(report)
    where = _deployment_model(report)
    return {
        "url_slug": f"tacit-{report.digest().hex()[:16]}",
        "deployment": {
            "basic": _basic(report, publication),
            "dp_variant": {
                "variant_name": _VARIANTS.get(line.model, "Custom"),
                "unprotected_quantities": _listed(report.not_protected),
            },
            "privacy_loss": {
                "privacy_unit": str(line.privacy_unit or report.privacy_unit or "none"),
                "privacy_unit_details": _neighbours(line.neighbouring or report.neighbouring),
                "privacy_parameters": _parameters(line),
                "privacy_parameters_details": _listed(
                    [_claimed(report), *(_sentence(other) for other in report.verified)]
                ),
            },
            "deployment_model": {
                "model_name": where,
                "trust_assumptions": _listed(report.assumptions),
                "release_type": "One release",
                "release_type_details": "One result of a deployment; its other releases about the "
                "same people have reports of their own, and their budgets add up.",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "mechanisms": f"{_mechanism(report)}. Software: Tacit {VERSION}; exact integer "
                "noise from the operating system's randomness where a layer says exact-integer. "
                + "; ".join(
                    f"{noise.layer}: {noise.distribution}, {noise.sampler}"
                    for noise in report.noise
                ),
                "composition": f"{report.accounting.method} ({report.accounting.library} "
                f"{report.accounting.version})",
                "post_processing": _listed(report.post_processing),
                "additional_information": f"Privacy report {address(report)}\n"
                f"What would void it:\n{_listed(report.voided_by)}\n"
                f"Defects of the source:\n{_listed(report.source_defects)}",
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": [publication.author],
                "tier": 3,
            },
        },
    }


def _basic(report: PrivacyReport, publication: Publication) -> dict[str, Any]:
    basic: dict[str, Any] = {
        "name": publication.name,
        "data_curators": [
            {
                "data_curator_name": publication.organisation,
                "data_curator_type": publication.organisation_type,
            }
        ],
        "description": publication.description,
        "intended_use": publication.intended_use,
        "data_product_type": _PRODUCTS.get(report.subject.algorithm or "", "Summary statistics"),
        "data_product_region": publication.region,
        "publication_date": publication.published,
    }
    return (
        basic if publication.sector is None else basic | {"data_product_sector": publication.sector}
    )


def _neighbours(relation: Neighbouring | None) -> str:
    return f"Two data sets are neighbours if {_NEIGHBOURS.get(relation, 'the report says so')}."


def _stated(report: PrivacyReport) -> VerifiedStatement:
    """The guarantee verified under the query's own assumption; for a job its first line."""
    first = report.verified[0]
    return next((line for line in report.verified if line.key == _STATED_FIRST), first)


def _parameters(line: VerifiedStatement) -> dict[str, float]:
    costs = {"epsilon": line.epsilon, "delta": line.delta, "rho": line.rho}
    if line.epsilon in (None, "inf"):
        return {}
    return {name: float(value) for name, value in costs.items() if value not in (None, "inf")}


def _sentence(line: VerifiedStatement) -> str:
    opponent = line.description or line.scenario
    why = f" ({line.reason})" if line.reason else ""
    if line.epsilon in (None, "inf"):
        return f"Verified, {opponent}: no bound{why}"
    return f"Verified, {opponent}: {line.model}, epsilon {line.epsilon}, delta {line.delta}{why}"


def _claimed(report: PrivacyReport) -> str:
    claim = report.claimed
    if claim is None:
        return "Claimed by a source: nothing"
    theorem = f", theorem {claim.theorem}" if claim.theorem else ""
    figures = f"epsilon {claim.epsilon}, delta {claim.delta}"
    return f"Claimed by the source{theorem}: {claim.model}, {figures}"


def _deployment_model(report: PrivacyReport) -> str:
    """Central: a service has the raw data; Local: each noisy report is protected by itself;
    Federated: the parties' noise protects a sum together."""
    if report.subject.kind == "job" and report.subject.dataset is not None:
        return "Central"
    layers = {noise.layer for noise in report.noise}
    return "Local" if layers == {"curator"} and _name(report) == "local" else "Federated"


def _name(report: PrivacyReport) -> str:
    return report.mechanism if isinstance(report.mechanism, str) else report.mechanism.name


def _mechanism(report: PrivacyReport) -> str:
    return f"{_name(report)}, stance {report.stance}"


def _listed(sentences: list[str] | tuple[str, ...]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences) or "none"

"""One debit for a job over rows of numbers: the same filter.

Spec: federated-counting, section 6.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.encoders.kmeans_sums import KmeansSum
from tacit.protocol.federation import FederatedStep, JobTerms
from tacit.query.query import Query
from tacit.query.terms import MOST_RECORDS
from tests.curator.conftest import Site
from tests.curator.records.test_job_debit import debits, opened, spent
from tests.curator.records.test_job_debit import filter_alone as filter_alone
from tests.curator.records.test_records import GRID, ROWS, SUM, ask, refused, step_and_query
from tests.curator.records.test_records import it as it

EVERY = {"every_record": True}


def asked(it: Site, number: int, question: KmeansSum = SUM) -> tuple[FederatedStep, Query]:
    """A step of a job whose rows spend 2 at most."""
    plain, query = step_and_query(question, number, **EVERY)
    if not hasattr(it.app.state, "terms"):
        it.app.state.terms = JobTerms.of(
            query,
            opened=it.clock.now(),
            aggregators=[each.id for each in it.world.aggregators],
            universe=(),
            epsilon=Fraction(2),
            steps_at_most=9,
        )
    step = plain.model_copy(update={"terms": it.app.state.terms})
    fields: dict[str, Any] = json.loads(query.model_dump_json(exclude_none=True))
    return step, Query.model_validate_json(json.dumps({**fields, "name": step.name}))


@pytest.mark.usefixtures("filter_alone")
async def test_rows_count_while_they_have_not_spent_epsilon(it: Site) -> None:
    """Each round costs each row 1: the third gets zeros, and the debit stays one."""
    whole = SUM.query.sums(GRID.quantise(np.array(ROWS))).tolist()
    for number in (1, 2):
        assert (await ask(it, *asked(it, number)))["contributed"]
        assert opened(it) == whole
    assert (await ask(it, *asked(it, 3)))["contributed"]
    assert set(opened(it)) == {0}
    assert await spent(it) == [Fraction(2)] * len(ROWS)
    assert await debits(it) == ["2", "0", "0"]
    assert await debits(it, "curator") == [str(2 * MOST_RECORDS), "0", "0"]


async def test_terms_need_all_records(it: Site) -> None:
    step, query = asked(it, 1)
    fields = json.loads(query.model_dump_json(exclude_none=True)) | {"every_record": None}
    assert refused(await ask(it, step, Query.model_validate_json(json.dumps(fields)))) == (
        "step_refused"
    )
    assert await debits(it) == []


async def test_what_passes_the_terms_in_public_is_refused(it: Site) -> None:
    """Rows have no paths: the rounds' own epsilons add up."""
    for number in (1, 2):
        assert (await ask(it, *asked(it, number)))["contributed"]
    assert refused(await ask(it, *asked(it, 3))) == "path_overspent"
    assert await debits(it) == ["2", "0"]
    assert await spent(it) == [Fraction(2)] * len(ROWS)

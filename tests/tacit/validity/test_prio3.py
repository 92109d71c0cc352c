"""The draft's vectors, operation by operation and byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.validity.arithmetic import Arithmetic
from tacit.validity.circuit import BoundedInteger
from tacit.validity.field import Elements, Rows
from tacit.validity.forms import Count, sum_circuit
from tacit.validity.prio3 import Decision, Outcome, Prio3, Verification
from tacit.validity.vectors import Histogram, SumVector, multihot_count_vector
from tests.tacit.validity.arithmetic import ARITHMETICS

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "vdaf"
NAMES = [
    *(f"Prio3Count_{number}" for number in range(3)),
    *(f"Prio3Sum_{number}" for number in range(3)),
    *(f"Prio3SumVec_{number}" for number in range(2)),
    *(f"Prio3SumVecWithMultiproof_{number}" for number in range(2)),
    *(f"Prio3Histogram_{number}" for number in range(3)),
    *(f"Prio3MultihotCountVec_{number}" for number in range(3)),
]
REFUSED = [
    *(
        f"Prio3Count_bad_{what}"
        for what in ("gadget_poly", "helper_seed", "meas_share", "wire_seed")
    ),
    *(
        f"Prio3Histogram_bad_{what}"
        for what in ("helper_jr_blind", "leader_jr_blind", "public_share", "verifier_message")
    ),
]
MULTIPROOF = 0xFFFFFFFF

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the shared data are not beside this clone"
)


def scheme(name: str, vector: dict[str, Any], arithmetic: Arithmetic) -> Prio3:
    kind = name.split("_")[0].removeprefix("Prio3")
    small, large = arithmetic.field64, arithmetic.field128
    chunk, length = vector.get("chunk_length", 0), vector.get("length", 0)
    top = vector.get("max_measurement", 0)
    circuit: Any = {
        "Count": lambda: (1, Count(small)),
        "Sum": lambda: (2, sum_circuit(small, top)),
        "SumVec": lambda: (3, SumVector(large, length, BoundedInteger(top), chunk)),
        "SumVecWithMultiproof": lambda: (
            MULTIPROOF,
            SumVector(small, length, BoundedInteger(top), chunk),
        ),
        "Histogram": lambda: (4, Histogram(large, length, chunk)),
        "MultihotCountVec": lambda: (
            5,
            multihot_count_vector(large, length, vector["max_weight"], chunk),
        ),
    }[kind]()
    algorithm, circuit = circuit
    proofs = 3 if algorithm == MULTIPROOF else 1
    return Prio3(algorithm, circuit, vector["shares"], proofs, arithmetic.hash_rows)


def encoded(prio3: Prio3, measurement: Any) -> Elements:
    circuit: Any = prio3.circuit
    values = np.array([measurement]).astype(np.int64)
    if prio3.algorithm == 2:
        return circuit.encode((values,))
    return circuit.encode(values)


def row(text: str) -> Rows:
    return np.frombuffer(bytes.fromhex(text), np.uint8)[np.newaxis]


def hexadecimal(rows: Rows) -> str:
    return rows.tobytes().hex()


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("name", NAMES)
def test_the_draft_s_vectors(name: str, arithmetic: Arithmetic) -> None:
    vector = json.loads((FOLDER / f"{name}.json").read_text())
    prio3 = scheme(name, vector, arithmetic)
    field = prio3.circuit.field
    context, key = bytes.fromhex(vector["ctx"]), bytes.fromhex(vector["verify_key"])
    totals: list[list[Elements]] = [[] for _ in range(prio3.shares)]
    for report in vector["reports"]:
        nonce = row(report["nonce"])
        measurement = encoded(prio3, report["measurement"])
        split = prio3.shard(context, measurement, nonce, row(report["rand"]))
        assert hexadecimal(split.public_shares) == report["public_share"]
        assert [hexadecimal(share) for share in split.input_shares] == report["input_shares"]

        found = [
            prio3.verify(key, context, index, nonce, split.public_shares, share)
            for index, share in enumerate(split.input_shares)
        ]
        shares = [each.verifier_shares for each in found]
        assert [[hexadecimal(share) for share in shares]] == report["verifier_shares"]
        decision = prio3.decide(context, shares)
        assert [hexadecimal(decision.messages)] == report["verifier_messages"]
        for index, each in enumerate(found):
            assert prio3.outcomes(each, decision).tolist() == [Outcome.ACCEPTED]
            words = report["out_shares"][index]
            assert hexadecimal(field.encode(each.output_shares)) == "".join(words)
            totals[index].append(each.output_shares)

    sums = []
    for outputs in totals:
        together = np.concatenate(outputs, axis=2)
        sums.append(prio3.aggregate(together, np.ones(len(outputs), np.bool_)))
    encoded_sums = [hexadecimal(field.encode(total[:, :, np.newaxis])) for total in sums]
    assert encoded_sums == vector["agg_shares"]
    result = vector["agg_result"]
    assert prio3.unshard(sums) == (result if isinstance(result, list) else [result])


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("name", REFUSED)
def test_the_draft_s_bad_contributions_are_refused_where_it_says(
    name: str, arithmetic: Arithmetic
) -> None:
    vector = json.loads((FOLDER / f"{name}.json").read_text())
    prio3 = scheme(name, vector, arithmetic)
    context, key = bytes.fromhex(vector["ctx"]), bytes.fromhex(vector["verify_key"])
    (report,) = vector["reports"]
    found: list[Verification] = []
    for index, share in enumerate(report["input_shares"]):
        each = prio3.verify(
            key, context, index, row(report["nonce"]), row(report["public_share"]), row(share)
        )
        found.append(each)
    (stated,) = report["verifier_shares"]
    shares = [each.verifier_shares for each in found]
    assert [hexadecimal(share) for share in shares][: len(stated)] == stated
    (refusing,) = [each for each in vector["operations"] if not each["success"]]
    if refusing["operation"] == "verifier_shares_to_message":
        assert not prio3.decide(context, shares).proved.any()
    else:
        assert refusing["operation"] == "verify_next"
        (message,) = report["verifier_messages"]
        told = Decision(row(message), np.ones(1, np.bool_))
        outcome = prio3.outcomes(found[refusing["aggregator_id"]], told)
        assert outcome.tolist() == [Outcome.JOINT_RANDOMNESS]

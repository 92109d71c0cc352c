"""The errors that a report states of a released file hold for the file: of the items of each class
of counts, 95 in 100 are off by what the class says. Spec: set-valued, section 10."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.declaration import DatasetReference
from algorithms.set_valued import Parameters, run
from algorithms.set_valued.margins import Margins
from algorithms.set_valued.release_error import errors_of_items
from algorithms.set_valued.remainder import Measured
from tacit.records.items import Transactions
from tests.algorithms.outcomes import stated_errors_hold

_SOMEWHERE = DatasetReference(dataset="01890a5d-ac96-774b-bcce-b302099a8057")


def baskets(
    records: int,
    items: int,
    mean: float,
    spread: float,
    first: float,
    tilt: float = 0.0,
    zipf: float = 1.0,
) -> Transactions:
    """Records of lognormal length; items Zipf-like, the first `first` times as likely; `tilt`: how
    much more often some items are in long records and others in short ones. Of a fixed seed."""
    generator = np.random.default_rng(1)
    sizes = np.exp(generator.normal(mean, spread, records))
    sizes = np.clip(np.rint(sizes), 1, min(76, items - 1)).astype(int)
    weights = 1 / (np.arange(items) + 3.0) ** zipf
    weights[0] = weights[1] * first
    bent = generator.uniform(-tilt, tilt, items)
    names = [f"i{number:05d}" for number in range(items)]
    found = []
    sums = {size: np.cumsum(weights * (size / 10) ** bent) for size in set(sizes.tolist())}
    for size in sizes.tolist():
        held: set[int] = set()
        while len(held) < size:
            uniform = generator.random(size - len(held)) * sums[size][-1]
            held.update(np.searchsorted(sums[size], uniform).tolist())
        found.append([names[item] for item in held])
    return Transactions.of(found, names)


def released(data: Transactions, epsilon: str, seed: int = 1) -> tuple[Outcome, NDArray[np.int64]]:
    """A run, and in how many records of its file each item is."""
    params = Parameters(epsilon=epsilon, universe=_SOMEWHERE, method="diffpart+rest")
    params = params.model_copy(update={"universe": data.items})
    outcome = run(data, params, "sound", SequentialContext(test_seed=seed))
    place = {item: number for number, item in enumerate(data.items)}
    counts = np.zeros(len(place), np.int64)
    for line in csv.DictReader(io.StringIO(outcome.files[0].content.decode())):
        for item in line["items"].split():
            counts[place[item]] += int(line["count"])
    return outcome, counts


CASES = {
    "common item": baskets(8_000, 400, 2.0, 0.8, 4.0),
    "items that prefer long or short records": baskets(8_000, 400, 2.0, 0.8, 2.0, 0.5),
    "short records": baskets(8_000, 300, 0.8, 0.5, 5.0, zipf=1.3),
}


@pytest.mark.parametrize(("name", "epsilon"), [*zip(CASES, ("0.5", "1", "4"), strict=True)])
def test_the_stated_errors_hold_for_the_file(name: str, epsilon: str) -> None:
    data = CASES[name]
    outcome, counts = released(data, epsilon)
    assert outcome.report.error is not None
    true = np.bincount(data.values, minlength=counts.size)
    stated = outcome.report.error["items"]
    assert stated_errors_hold(stated, counts, true) == 2 * counts.size


def test_more_noise_in_a_sum_is_stated_as_more() -> None:
    """Over curators a sum holds several draws; the statement is a function of the noisy counts."""
    lengths = np.zeros(64, np.int64)
    lengths[:4] = 300, 400, 200, 100
    margins = Margins(lengths, 3, np.array([700, 500, 300, 200, -40, 30] + 40 * [0]))
    one, four = (
        next(each for each in errors.by_class if each.first == 300)
        for errors in (
            errors_of_items(
                margins, Measured.of((((0,), 120),), 46), Fraction(1), lambda: None, Fraction(draws)
            )
            for draws in (1, 4)
        )
    )
    assert four.high - four.low > 1.3 * (one.high - one.low)

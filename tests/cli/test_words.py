"""What a job published, in words: no JSON, and every figure that is shown is the document's."""

from __future__ import annotations

import pytest

from cli.words import MAX_LENGTH, summary_lines


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"instances": 5, "local_ops": 3}, "instances 5, local_ops 3"),
        ([], "none"),
        ({}, "none"),
        (None, "none"),
        (True, "yes"),
        (0.14705882352941177, "0.147059"),
        ("0.5", "0.5"),
        ([[4.9384, 3.2], [6, 2]], "(4.9384, 3.2), (6, 2)"),
        ([{"items": ["19", "43"], "count": 7}], "(items (19, 43), count 7)"),
        (list(range(15)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3 more"),
        (["one thing", "another"], "one thing; another"),
    ],
)
def test_a_value_is_said_in_words(value: object, said: str) -> None:
    assert summary_lines({"name": value}) == [f"name: {said}"]


def test_a_long_one_is_cut_and_says_so() -> None:
    [line] = summary_lines({"patterns": [{"items": ["a"] * 9, "count": 3}] * 12})
    assert len(line) <= MAX_LENGTH and line.endswith(" ...")

"""The compact map from names to numbers does what a dictionary does."""

from hypothesis import given
from hypothesis import strategies as st

from curator.intake.hosted_names import ABSENT, Names
from tests.property_examples import examples

WORDS = st.text(max_size=3)


@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=60), st.lists(WORDS, max_size=20))
@examples(200)
def test_it_is_a_dictionary(added: list[tuple[str, bool]], asked: list[str]) -> None:
    names, expected = Names(), dict[str, int]()
    for number, (word, settled) in enumerate(added):
        names.add([word], [expected.setdefault(word, number)])
        if settled:
            names.settle()
    assert names.find_all(asked).tolist() == [expected.get(word, ABSENT) for word in asked]
    assert all(names.find(word) == number for word, number in expected.items())


def test_equal_beginnings_are_told_apart() -> None:
    # Of so many names some five pairs share the 32 bits by which they are sorted.
    words = [f"meter-{index}" for index in range(200_000)]
    names = Names()
    names.add(words[:150_000], range(150_000))
    assert names.find(words[1]) == 1
    names.add(words[100_000:], range(100_000, 200_000))
    assert names.find_all(words).tolist() == list(range(200_000))
    assert [names.find(word) for word in words] == list(range(200_000))
    assert names.find("meter-200000") == ABSENT

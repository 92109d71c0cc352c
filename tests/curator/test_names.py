"""The compact map from names to numbers does what a dictionary does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from curator.names import ABSENT, Names

WORDS = st.text(max_size=3)


@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=60), st.lists(WORDS, max_size=20))
@settings(max_examples=200, deadline=None)
def test_it_is_a_dictionary(added: list[tuple[str, bool]], asked: list[str]) -> None:
    names, expected = Names(), dict[str, int]()
    for number, (word, settled) in enumerate(added):
        names.add([word], [number])
        expected.setdefault(word, number)
        if settled:
            names.settle()
    assert len(names) == len(expected)
    assert names.find_all(asked).tolist() == [expected.get(word, ABSENT) for word in asked]
    assert all(names.find(word) == number for word, number in expected.items())


class Neighbours(Names):
    """Every name's hash begins alike."""

    def _digest(self, name: str) -> bytes:
        return bytes(8) + super()._digest(name)[8:]


def test_equal_beginnings_are_told_apart() -> None:
    names = Neighbours()
    words = [f"meter-{index}" for index in range(300)]
    names.add(words, range(300))
    names.settle()
    assert names.find_all(words).tolist() == list(range(300))
    assert names.find("meter-300") == ABSENT

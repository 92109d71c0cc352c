"""Streams: reproducible where they must be, never twice the same where they must not."""

import copy
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.randomness import KEY_LIFETIME, PublicRandom, SecureRandom, SeededRandom, StreamForked

SEED = bytes(range(32))
ALARM = 1e-9
"""Rate at which a check on words of the operating system fails though all is well."""


def in_child(draw):
    """What `draw` returns in a forked child (bytes)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, draw())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def keystream(segment: int, name: str, start: int, count: int) -> bytes:
    """The definition of a seeded stream, written out."""
    info = segment.to_bytes(8, "big") + name.encode()
    key = HKDF(SHA256(), 32, salt=b"tacit secret seed stream v1", info=info).derive(SEED)
    block, skip = divmod(start, 16)
    encryptor = Cipher(AES(key), CTR(block.to_bytes(16, "big"))).encryptor()
    return encryptor.update(bytes(skip + count))[skip:]


def test_words_are_uniform():
    words = SecureRandom().words(1 << 18)
    assert words.dtype == np.uint64 and words.shape == (1 << 18,)
    counts = np.bincount(words.view(np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > ALARM
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert stats.binomtest(ones, 1 << 18).pvalue > ALARM


def test_a_seeded_stream_is_the_keystream_of_its_name():
    stream = SecureRandom.from_secret_seed(SEED, "stage 1/block 7")
    assert stream.bytes(5) == keystream(0, "stage 1/block 7", 0, 5)
    assert stream.words(3).tobytes() == keystream(0, "stage 1/block 7", 5, 24)


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=6))
def test_a_seeded_stream_does_not_depend_on_how_it_is_asked(counts):
    parts = SecureRandom.from_secret_seed(SEED, "a")
    whole = SecureRandom.from_secret_seed(SEED, "a")
    drawn = np.concatenate([parts.words(count) for count in counts])
    assert np.array_equal(drawn, whole.words(sum(counts)))


def test_streams_of_other_names_or_seeds_differ():
    first = SecureRandom.from_secret_seed(SEED, "a").bytes(32)
    assert first != SecureRandom.from_secret_seed(SEED, "b").bytes(32)
    assert first != SecureRandom.from_secret_seed(bytes(32), "a").bytes(32)


@pytest.mark.parametrize(("seed", "name"), [(b"short", "a"), (bytes(33), "a"), (SEED, "")])
def test_a_seed_has_256_bits_and_a_stream_a_name(seed, name):
    with pytest.raises(ValueError):
        SecureRandom.from_secret_seed(seed, name)


def test_the_key_changes_every_gib():
    stream = SecureRandom.from_secret_seed(SEED, "long")
    step = 1 << 20
    for _ in range(KEY_LIFETIME // (8 * step) - 1):
        stream.words(step)
    stream.words(step - 1)
    boundary = stream.words(2).tobytes()
    assert boundary[:8] == keystream(0, "long", KEY_LIFETIME - 8, 8)
    assert boundary[8:] == keystream(1, "long", 0, 8)


def test_a_system_stream_takes_a_new_key_in_a_child():
    stream = SecureRandom()
    stream.words(4)
    child = in_child(lambda: stream.bytes(32))
    grandchild = in_child(lambda: in_child(lambda: stream.bytes(32)))
    parent = stream.bytes(32)
    assert len(child) == len(grandchild) == 32
    assert len({child, grandchild, parent}) == 3


def test_the_parent_keeps_its_stream():
    stream = SecureRandom.from_secret_seed(SEED, "a")
    stream.words(1)
    in_child(lambda: b"")
    assert stream.bytes(8) == keystream(0, "a", 8, 8)


def test_a_seeded_stream_refuses_to_draw_in_a_child():
    stream = SecureRandom.from_secret_seed(SEED, "a")

    def draw():
        try:
            return stream.bytes(8)
        except StreamForked:
            return b"refused"

    assert in_child(draw) == b"refused"
    assert in_child(lambda: SecureRandom.from_secret_seed(SEED, "b").bytes(8)) == keystream(
        0, "b", 0, 8
    )


def test_a_fork_that_python_did_not_see_is_detected_by_the_process_id(monkeypatch):
    system, seeded = SecureRandom(), SecureRandom.from_secret_seed(SEED, "a")
    system.words(1)
    before = system._cipher
    monkeypatch.setattr(os, "getpid", lambda: -1)
    system.words(1)
    assert system._cipher is not before
    with pytest.raises(StreamForked):
        seeded.words(1)


def test_a_fork_while_another_thread_draws_does_not_deadlock():
    stream = SecureRandom()
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            stream.words(1 << 16)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        children = [in_child(lambda: stream.bytes(16)) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert len(set(children)) == 3 and all(len(child) == 16 for child in children)


def test_threads_share_a_stream_without_drawing_a_word_twice():
    stream = SecureRandom.from_secret_seed(SEED, "a")
    drawn: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(stream.words(1000) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = SecureRandom.from_secret_seed(SEED, "a").words(200_000)
    assert np.array_equal(np.sort(np.concatenate(drawn)), np.sort(expected))


@pytest.mark.parametrize("stream", [SecureRandom(), SecureRandom.from_secret_seed(SEED, "a")])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_cannot_be_duplicated(stream, duplicate):
    with pytest.raises(TypeError):
        duplicate(stream)


def test_public_and_seeded_choices_repeat():
    assert PublicRandom(7).generator.integers(1 << 60) == PublicRandom(7).generator.integers(
        1 << 60
    )
    assert np.array_equal(SeededRandom(7).words(9), SeededRandom(7).words(9))
    assert SeededRandom(7).bytes(9) == SeededRandom(7).bytes(9)
    assert not np.array_equal(SeededRandom(7).words(9), SeededRandom(8).words(9))
    assert not hasattr(PublicRandom(7), "words") and not hasattr(PublicRandom(7), "bytes")


@pytest.mark.slow
def test_the_type_checker_shows_public_randomness_used_for_noise(tmp_path):
    from mypy import api

    root = Path(__file__).parents[2]
    snippet = tmp_path / "mix_up.py"
    snippet.write_text(
        "from fractions import Fraction\n"
        "from tacit.noise import DiscreteLaplace, floating_laplace\n"
        "from tacit.randomness import PublicRandom, SecureRandom, SeededRandom\n"
        "noise = DiscreteLaplace(Fraction(3))\n"
        "noise.draw(SecureRandom(), 1)\n"
        "noise.draw(SeededRandom(1), 1)\n"
        "noise.draw(PublicRandom(1), 1)\n"
        "floating_laplace(SecureRandom(), 1.0, 1)\n"
    )
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nmypy_path = {root}\nfollow_imports = silent\n")
    report, _, status = api.run(["--strict", "--config-file", str(config), str(snippet)])
    wrong = [line.split(":")[1] for line in report.splitlines() if ": error:" in line]
    assert status == 1 and wrong == ["7", "8"], report

"""The reference client takes part in a round of real services, beside a host."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cli.services.deployment import Deployment, Running, join_token, pair
from tacit import Client
from tacit.crypto.sealing import SealKey
from tacit.crypto.signing import HybridIdentity, Identity
from tacit.protocol.enrolment import PartyKind
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.wire import encode_binary, parse_binary
from tests.examples.client import SCRIPT, load_client

pytestmark = pytest.mark.slow

WINDOW = {"start": "2025-11-03T18:00:00Z", "end": "2025-11-03T19:00:00Z"}
HOUSES = [f"house-{number}" for number in range(8)]
QUERY: dict[str, Any] = {
    "name": "with-a-device",
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "5"],
    "max_readings": 1,
    "resolution": "0.001",
    "mechanism": "distributed",
    "epsilon": "40",
    "sharing": "additive",
    "aggregators": 3,
    "collusion": {"curators": 0, "aggregators": 2},
    "min_participants": 9,
    "n_max": 100,
    "deadline_s": 120,
}
SETTINGS = {
    "coordinator": {"TACIT_POLL_S": "0.05"},
    "aggregator": {},
    "curator": {"TACIT_SEND_WINDOW_SHARE": "0", "TACIT_PREPARE_LEAD_S": "0"},
}


@dataclass
class World:
    """Services, a host of eight households, and the device's state file."""

    deployment: Deployment
    coordinator: Client
    state: Path

    def device(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the client as its user would."""
        return subprocess.run(
            [sys.executable, "-I", str(SCRIPT), str(self.state), *arguments],
            capture_output=True,
            text=True,
        )

    def contribute(self, value: str, at: str = "2025-11-03T18:30:00Z") -> Any:
        """Run the client for one reading."""
        return self.device("contribute", at, value)

    def open(self, **changes: Any) -> str:
        """A round of the query over the window."""
        query = self.coordinator.queries.create({**QUERY, **changes})
        round_id: str = self.coordinator.rounds.open(query["id"], window=WINDOW)["id"]
        for _ in range(2400):  # it is listed once all aggregators have taken it
            listed = self.coordinator.get("/v1/rounds", state="open")["rounds"]
            if any(item["statement"]["round"] == round_id for item in listed):
                return round_id
            time.sleep(0.05)
        raise AssertionError(self.coordinator.rounds.get(round_id))

    def kept(self) -> Any:
        """The device's state."""
        return json.loads(self.state.read_text())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("device")
    deployment = Deployment.plan(directory, 3)
    running = Running(deployment, SETTINGS)
    try:
        running.start()
        pair(deployment)
        with deployment.curator.client() as host, deployment.coordinator.client() as coordinator:
            token = join_token(deployment, "street", PartyKind.HOST, len(HOUSES), 3600)
            host.post("/v1/enrolments", {"token": token.to_text(), "curators": HOUSES})
            policy = host.get("/v1/policy")
            policy["record"] = policy["curator"] = {"period": {"epsilon": "100000"}}
            host.request("PUT", "/v1/policy", policy)
            items = [
                {"curator": name, "time": WINDOW["start"], "value": "1.5", "unit": "kWh"}
                for name in HOUSES
            ]
            host.request("POST", "/v1/readings", items)
            found = World(deployment, coordinator, directory / "state.json")
            # One that never contributes keeps rounds open to their deadline.
            for name, state in (("absent", directory / "absent.json"), ("device-7", found.state)):
                lone = join_token(deployment, name, PartyKind.CURATOR, 1, 3600).to_text()
                enrolled = replace(found, state=state).device("enrol", lone)
                assert enrolled.returncode == 0, enrolled.stderr
            yield found
    finally:
        running.stop()


def stop(world: World, round_id: str) -> None:
    """Leave no round open for the next test."""
    world.coordinator.post(f"/v1/rounds/{round_id}/abort")


VALIDITIES = pytest.mark.parametrize("validity", ["declared", "proved"])


@VALIDITIES
@pytest.mark.parametrize(
    ("function", "total", "margin"),
    # Three aggregators' noise of scale 5 kWh / 20 or 1 / 20: off by more less than once in 10^12.
    [("sum", 8 * 1.5 + 2.25, 8), ("count", 9, 1.6)],
)
def test_a_device_contributes_beside_a_host(
    world: World, function: str, total: float, margin: float, validity: str
) -> None:
    name = f"{function}-{validity}"
    round_id = world.open(
        name=name, function=function, validity=validity, epsilon="20", deadline_s=5
    )
    ran = world.contribute("2.25")
    assert (ran.returncode, ran.stdout) == (0, f"{round_id} contributed\n"), ran.stderr
    found = world.coordinator.rounds.wait(round_id, 60)
    assert found["participants"] == len(HOUSES) + 1
    assert not world.coordinator.rounds.get(round_id)["refused"]
    assert abs(float(found["result"][function]) - total) < margin
    assert world.coordinator.rounds.verify(round_id)["matches"]


def test_a_device_that_lies_in_a_proved_round_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_id = world.open(
        name="lied-to", validity="proved", epsilon="1", deadline_s=5, min_participants=8
    )
    client, state = load_client(), tmp_path / "state.json"
    state.write_text(json.dumps({**world.kept(), "spent": "0"}))
    honest = client.bits_of
    monkeypatch.setattr(client, "bits_of", lambda *those: [2, *honest(*those)[1:]])
    client.contribute(str(state), WINDOW["start"], "1")
    found = world.coordinator.rounds.wait(round_id, 60)
    assert found["participants"] == len(HOUSES)
    assert world.coordinator.rounds.get(round_id)["refused"] == 1


@VALIDITIES
def test_a_retry_sends_the_same_bytes(world: World, validity: str) -> None:
    round_id = world.open(name=f"retried-{validity}", validity=validity, epsilon="5")
    assert world.contribute("1").returncode == 0
    before = world.kept()
    ran = world.contribute("4")
    assert (ran.returncode, ran.stdout) == (0, f"{round_id} contributed\n"), ran.stderr
    assert world.kept() == before
    for aggregator, url, piece in before["rounds"][round_id]:
        with Client(url, before["aggregators"][aggregator]["token"]) as client:
            answer = client.request("POST", f"/v1/rounds/{round_id}/pieces", piece)
        assert answer.status_code == 200, "the piece is known"
    stop(world, round_id)


def test_the_budget_ends_it(world: World) -> None:
    spent = Fraction(world.kept()["spent"])
    too_much = world.open(name="too-much", epsilon=str(100 - spent + Fraction(1, 2)))
    assert world.contribute("1").stdout == f"{too_much} refused: epsilon\n"
    assert world.kept()["rounds"][too_much] == "epsilon"
    assert Fraction(world.kept()["spent"]) == spent
    stop(world, too_much)
    the_rest = world.open(name="the-rest", epsilon=str(100 - spent))
    assert world.contribute("1").stdout == f"{the_rest} contributed\n"
    assert world.kept()["spent"] == "100"
    stop(world, the_rest)


# --- another key ---------------------------------------------------------------------------------


@pytest.fixture
def other(world: World) -> World:
    """The other device, which contributed nothing yet."""
    return replace(world, state=world.state.with_name("absent.json"))


def released_with(world: World, device: World, name: str) -> None:
    """A device's contribution is in a sum with the host's."""
    round_id = world.open(name=name, epsilon="20", deadline_s=5)
    ran = device.contribute("2.25")
    assert (ran.returncode, ran.stdout) == (0, f"{round_id} contributed\n"), ran.stderr
    assert world.coordinator.rounds.wait(round_id, 60)["participants"] == len(HOUSES) + 1


def test_a_device_replaces_its_key_though_an_aggregator_is_away(
    world: World, other: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, before = load_client(), other.kept()
    away = list(before["aggregators"].values())[1]["url"]
    ask = client.ask

    def reached(url: str, *rest: Any) -> Any:
        if url.startswith(away):
            raise OSError("away")
        return ask(url, *rest)

    monkeypatch.setattr(client, "ask", reached)
    with pytest.raises(OSError, match="away"):
        client.rotate(str(other.state))
    half = other.kept()
    assert half["identity"] == before["identity"] != half["next"]
    released_with(world, other, "between-two-keys")
    for _ in range(2):  # a second rotation, too, from the key that the first one made
        assert (ran := other.device("rotate")).returncode == 0, ran.stderr
    kept = other.kept()
    assert "next" not in kept and kept["identity"] not in (before["identity"], half["next"])
    assert len(kept["links"]) == 2
    released_with(world, other, "after-both")


def test_a_stolen_key_is_replaced_with_the_operators_help(world: World, other: World) -> None:
    stolen = replace(other, state=other.state.with_name("stolen.json"))
    stolen.state.write_text(other.state.read_text())
    usual = join_token(world.deployment, "device-7", PartyKind.CURATOR, 1, 3600, replaces=True)
    refused = other.device("enrol", usual.to_text())
    assert refused.returncode and "another party" in refused.stderr
    token = join_token(world.deployment, "absent", PartyKind.CURATOR, 1, 3600, replaces=True)
    for _ in range(2):  # the same again, as after a crash
        ran = other.device("enrol", token.to_text())
        assert ran.returncode == 0, ran.stderr
    before, kept = stolen.kept(), other.kept()
    assert kept["identity"] != before["identity"]
    assert (kept["first"], kept["spent"]) == (before["first"], before["spent"])
    assert stolen.contribute("5").returncode
    assert stolen.device("rotate").returncode
    released_with(world, other, "after-a-theft")


# --- what a dishonest coordinator might show, before anything is debited or sealed ---------------


@dataclass
class Shown:
    """A genuine signed descriptor, the client's functions, and a state that may still spend."""

    signed: Any
    client: ModuleType
    state: Any

    def prepare(self, signed: Any) -> Any:
        """What the client makes of a descriptor; the state must stay as it is if it refuses."""
        state = copy.deepcopy(self.state)
        made: Any = None
        try:
            made = self.client.prepare(state, signed, "2025-11-03T18:30:00Z", "1")
        finally:
            assert isinstance(made, list) or state == self.state
        return made


@pytest.fixture
def shown(world: World) -> Iterator[Shown]:
    round_id = world.open(name="shown", epsilon="1")
    signed = world.coordinator.get(f"/v1/rounds/{round_id}/descriptor")
    state = {**world.kept(), "spent": "0"}
    yield Shown(signed, load_client(), state)
    stop(world, round_id)


def test_the_genuine_descriptor_is_taken(shown: Shown) -> None:
    assert len(shown.prepare(shown.signed)) == 3


@pytest.mark.parametrize("bound", ["0.001", "5"])
def test_a_proved_piece_has_the_length_of_its_query(shown: Shown, bound: str) -> None:
    query = shown.signed["statement"]["query"]
    query.update(validity="proved", bounds=["0", bound])
    pieces = shown.prepare(_signed_by_a_coordinator_of_our_own(shown))
    proof = proof_plan(Query.model_validate_json(json.dumps(query))).of(1)
    lengths = [len(parse_binary(piece["sealed"])) - 16 for _, _, piece in pieces]
    assert lengths == [proof.share_bytes(index) for index in range(3)]


def test_nonce_and_seeds_are_never_used_again(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left_open(_state: Any, _descriptor: Any, _index: int, plain: bytes, *_: Any) -> bytes:
        return plain

    monkeypatch.setattr(shown.client, "seal", left_open)
    shown.signed["statement"]["query"]["validity"] = "proved"
    signed = _signed_by_a_coordinator_of_our_own(shown)
    plains = [[plain for _, _, plain in shown.prepare(signed)] for _ in range(2)]
    assert [len({plain[:16] for plain in each}) for each in plains] == [1, 1]
    assert plains[0][0][:16] != plains[1][0][:16]
    assert len({plain[16:] for each in plains for plain in each}) == 6


def test_a_changed_descriptor_is_refused(shown: Shown) -> None:
    shown.signed["statement"]["query"]["epsilon"] = "0.5"
    with pytest.raises(SystemExit, match="signature"):
        shown.prepare(shown.signed)


OTHER_QUERIES: list[dict[str, Any]] = [
    *({"function": "mean"}, {"unit": "Wh"}, {"register": "energy_export"}, {"layer": "both"}),
    *({"stance": "paper"}, {"delta": "0.001"}, {"epsilon": "100.5"}, {"epsilon": "-1"}),
    *({"epsilon": None}, {"mechanism": None}, {"validity": "assumed"}, {"completeness": "exact"}),
    *({"bounds": ["0", "0"]}, {"bounds": ["0", str(2**62)]}),
]
OTHER_ROUNDS: list[tuple[str, Any]] = [
    ("deadline", "2025-11-04T00:00:00Z"),
    ("opened", "2999-01-01T00:00:00Z"),
    ("format", "tacit.round/9"),
]


def test_other_queries_and_rounds_are_refused_by_name(shown: Shown) -> None:
    genuine = copy.deepcopy(shown.signed["statement"])
    for change in OTHER_QUERIES:
        shown.signed["statement"] = copy.deepcopy(genuine)
        shown.signed["statement"]["query"].update(change)
        assert shown.prepare(_signed_by_a_coordinator_of_our_own(shown)) == next(iter(change))
    for name, value in OTHER_ROUNDS:
        shown.signed["statement"] = {**copy.deepcopy(genuine), name: value}
        assert shown.prepare(_signed_by_a_coordinator_of_our_own(shown)) == name
    del genuine["aggregators"][2]
    genuine["query"]["aggregators"] = 2
    shown.signed["statement"] = genuine
    assert shown.prepare(_signed_by_a_coordinator_of_our_own(shown)) == "aggregators"


def _signed_by_a_coordinator_of_our_own(shown: Shown) -> Any:
    """Sign the statement anew and make the state believe in that key: only anchors are left."""
    identity = Identity.generate()
    statement = shown.signed["statement"]
    message = b"tacit round descriptor v1\0" + shown.client.canonical(statement)
    shown.state["coordinator"]["identity_key"] = encode_binary(identity.public_key)
    return {"statement": statement, "signature": encode_binary(identity._key.sign(message))}


def _seal_key(identity: Identity, statement: Any, client: ModuleType) -> Any:
    message = b"tacit seal key v1\0" + client.canonical(statement)
    return {"statement": statement, "signature": encode_binary(identity._key.sign(message))}


def test_a_substituted_aggregator_is_refused(shown: Shown) -> None:
    impostor = Identity.generate()
    entry = shown.signed["statement"]["aggregators"][2]
    entry["identity_key"] = encode_binary(impostor.public_key)
    entry["seal_key"] = _seal_key(impostor, entry["seal_key"]["statement"], shown.client)
    with pytest.raises(SystemExit, match="substituted"):
        shown.prepare(_signed_by_a_coordinator_of_our_own(shown))


def test_a_seal_key_of_somebody_else_is_refused(shown: Shown) -> None:
    entry = shown.signed["statement"]["aggregators"][0]
    entry["seal_key"] = _seal_key(Identity.generate(), entry["seal_key"]["statement"], shown.client)
    with pytest.raises(SystemExit, match="signature"):
        shown.prepare(_signed_by_a_coordinator_of_our_own(shown))


def test_another_public_key_than_the_one_signed_is_not_used(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = shown.client.ask
    asked: list[str] = []

    def lying(url: str, *more: Any) -> Any:
        if "/v1/seal-keys/" not in url:
            return honest(url, *more)
        asked.append(url)
        return SealKey(bytes(32)).public.raw

    monkeypatch.setattr(shown.client, "ask", lying)
    shown.state["sessions"] = {}
    with pytest.raises(SystemExit, match="nobody has the seal key"):
        shown.prepare(shown.signed)
    assert len(asked) == 2, "the aggregator, then the coordinator"


def test_one_aggregator_twice_is_refused(shown: Shown) -> None:
    entries = shown.signed["statement"]["aggregators"]
    entries[1] = copy.deepcopy(entries[0])
    with pytest.raises(SystemExit, match="aggregators"):
        shown.prepare(_signed_by_a_coordinator_of_our_own(shown))


def _grants(kept: Any) -> list[Any]:
    """The coordinator's, then the aggregators' in their order."""
    return [
        kept["coordinator"],
        *(kept["aggregators"][name] for name in sorted(kept["aggregators"])),
    ]


def test_replaced_identities_are_followed(world: World) -> None:
    """The coordinator's and an aggregator's: the device goes along both chains by itself.

    The first is compromised, which ends all tokens there, the second ends its own: both are renewed
    by the device's identity.
    """
    tokens = [grant["token"] for grant in _grants(world.kept())]
    assert world.contribute("1").returncode == 0  # it has seen nobody's document yet
    world.state.write_text(json.dumps({**world.kept(), "spent": "0"}))
    pairs = [HybridIdentity.generate() for _ in range(4)]
    services = [world.deployment.coordinator, world.deployment.aggregators[0]]
    for number, service in enumerate(services):
        with service.client() as client:
            own, after = pairs[2 * number : 2 * number + 2]
            client.keys.commit_next(own.public.model_dump(mode="json"))
            following = after.public.model_dump(mode="json")
            secret = encode_binary(own.to_bytes())
            client.keys.rotate_identity(secret, following, compromised=number == 0)
            client.post("/v1/tokens/end")
    round_id = world.open(name="after-the-rotation", epsilon="1", deadline_s=30)
    ran = world.contribute("2.25")
    assert (ran.returncode, ran.stdout) == (0, f"{round_id} contributed\n"), ran.stderr
    assert world.coordinator.rounds.wait(round_id, 60)["participants"] == len(HOUSES) + 1
    kept = world.kept()
    renewed = [grant["token"] for grant in _grants(kept)]
    others = [old != new for old, new in zip(tokens, renewed, strict=True)]
    assert others == [True, True, False, False]
    north = kept["aggregators"][world.deployment.aggregators[0].id]
    for grant, own in ((kept["coordinator"], pairs[0]), (north, pairs[2])):
        assert grant["identity_key"] == encode_binary(own.public.ed25519)
        assert grant["document"]["serial"] == 1

"""A small model trained over 50 curators by federated averaging, each update hidden in a noisy sum.

    python federated_averaging.py

Run it beside `tacit up`, with curators site-0 to site-49 enrolled and a policy that agrees to the
budget (docs/how-to/load-profiles.md). Each curator has 40 rows of its own; in each of eight rounds
it sends the gradient of a logistic regression, of a length of at most 1, to its own service. A
round releases the sum with Gaussian noise: all rows of a curator together in all rounds are
protected at (8, 10^-6).
"""

from datetime import UTC, datetime, timedelta

import numpy as np

import tacit
from tacit.noise.gaussian_privacy import zcdp_epsilon

SITES, ROWS, FEATURES, ROUNDS = 50, 40, 20, 8
QUERY = tacit.Query.of(
    name="averaging", function="vector_sum", coordinates="values", dimension=FEATURES + 1,
    register="model:gradient", unit="1", bounds=["-1", "1"], max_readings=1, window_bound="1",
    resolution="0.0001", mechanism="distributed", noise="gaussian", rho="0.131544",
    delta="0.000001", sharing="additive", aggregators=3,
    collusion={"aggregators": 2, "curators": 0}, min_participants=SITES, n_max=1000,
    deadline_s=20,
)  # fmt: skip

random = np.random.default_rng(7)
truth = random.normal(size=FEATURES + 1)


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.hstack([random.normal(size=(count, FEATURES)), np.ones((count, 1))])
    return inputs, (inputs @ truth + random.logistic(size=count) > 0).astype(float)


sites, (test_inputs, test_labels) = [rows(ROWS) for _ in range(SITES)], rows(5000)


def accuracy(model: np.ndarray) -> float:
    return float(((test_inputs @ model > 0) == (test_labels > 0.5)).mean())


def gradient(model: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What one site sends, with a length of at most 1."""
    step = inputs.T @ (labels - 1 / (1 + np.exp(-inputs @ model))) / len(labels)
    return step / max(1.0, float(np.linalg.norm(step)))


print(tacit.price(QUERY).errors[0].interval.half_width, "is the noise of each number")
with tacit.Client.at_home() as client, tacit.Client.at_home(service="curator") as curator:
    model, start = np.zeros(FEATURES + 1), datetime.now(UTC).replace(microsecond=0)
    for number in range(ROUNDS):
        begin = start - timedelta(minutes=ROUNDS - number)
        curator.readings.send([
            {"curator": f"site-{site}", "device": "trainer", "register": "model:gradient",
             "time": begin.isoformat(), "unit": "1", "kind": "instant",
             "values": [f"{value:.9f}" for value in gradient(model, *data)]}
            for site, data in enumerate(sites)
        ])  # fmt: skip
        result = client.rounds.ask(QUERY, window=(begin, begin + timedelta(minutes=1)))
        model += 3 * np.array([float(value) for value in result.value]) / result.participants
        spent = zcdp_epsilon(float(QUERY.rho) * (number + 1), 1e-6)
        print(f"round {number + 1}: accuracy {accuracy(model):.3f}, spent ({spent:.2f}, 10^-6)")
print(f"without noise of ours: {accuracy(truth):.3f} is the best there is")

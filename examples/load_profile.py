"""The load profile of all curators for some days: its price, its figures, a picture and a table.

    python load_profile.py FIRST_DAY DAYS MINIMUM

Run it beside `tacit up`. Days are in UTC, of 96 quarter hours; MINIMUM is how many curators have to
take part. The bounds are those of a home's meter: 5 kWh in a quarter hour, and a day whose root of
the sum of squares is 18.5 kWh. With its rho, 365 days cost each home (8, 10^-6).
"""

import csv
import sys
from datetime import UTC, datetime, timedelta

import tacit

FIRST, DAYS, MINIMUM = datetime.fromisoformat(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
PROFILE = tacit.Query.of(
    name="load-profile", function="vector_sum", dimension=96, coordinates="slots",
    unit="kWh", bounds=["0", "5"], max_readings=96, window_bound="18.5", resolution="0.001",
    mechanism="distributed", noise="gaussian", rho="0.002883172", sharing="additive",
    aggregators=3, collusion={"aggregators": 2, "curators": 0},
    min_participants=MINIMUM, n_max=100_000, deadline_s=20,
)  # fmt: skip

with tacit.Client.at_home() as client, open("profiles.csv", "w", newline="") as table:
    print(tacit.price(PROFILE))
    rows = csv.DictWriter(table, ["day", "part", "index", "value", "low", "high", "unit"])
    rows.writeheader()
    for day in (FIRST.replace(tzinfo=UTC) + timedelta(days=number) for number in range(DAYS)):
        result = client.rounds.ask(PROFILE, window=(day, day + timedelta(days=1)))
        rows.writerows({"day": f"{day:%Y-%m-%d}", **row} for row in result.rows())
        result.plot().savefig(f"profile-{day:%Y-%m-%d}.png")
        print(f"{day:%Y-%m-%d}: {sum(result.value):,.1f} kWh, {result.participants} curators")

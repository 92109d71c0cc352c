"""What `tacit dataset sample column-total` writes, and the job on it."""

from algorithms.contract import Sample, SampleJob

JOB = SampleJob("meters.csv", {"column": "kwh", "bound": "10", "epsilon": "1"})


def samples() -> list[Sample]:
    """A hundred meters."""
    rows = "".join(f"{number % 7},{number % 3}\n" for number in range(100))
    content = f"kwh,peak_kw\n{rows}".encode()
    return [Sample("meters.csv", "numeric-table", "csv", content, "100 meters; bound 10 kWh")]

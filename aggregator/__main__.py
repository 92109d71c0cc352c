"""`tacit-aggregator` or `python -m aggregator`: the service, set up by the environment."""

from aggregator.app import create_app
from aggregator.settings import AggregatorSettings
from common.web.server import main


def run() -> None:
    """Run until a signal ends it."""
    main(AggregatorSettings, create_app)


if __name__ == "__main__":
    run()

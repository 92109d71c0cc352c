"""`tacit-coordinator` or `python -m coordinator`: the service, set up by the environment."""

from common.web.server import main
from coordinator.app import create_app
from coordinator.settings import CoordinatorSettings


def run() -> None:
    """Run until a signal ends it."""
    main(CoordinatorSettings, create_app)


if __name__ == "__main__":
    run()

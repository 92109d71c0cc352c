"""`tacit-curator` or `python -m curator`: the service, set up by the environment."""

from common.web.server import main
from curator.app import create_app
from curator.settings import CuratorSettings


def run() -> None:
    """Run until a signal ends it."""
    main(CuratorSettings, create_app)


if __name__ == "__main__":
    run()

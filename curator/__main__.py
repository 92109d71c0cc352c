"""`python -m curator`: run the service with settings from the environment."""

from common.service.serve import main
from curator.app import create_app
from curator.settings import CuratorSettings

if __name__ == "__main__":
    main(CuratorSettings, create_app)

"""`python -m coordinator`: run the service with settings from the environment."""

from common.service.serve import main
from coordinator.app import create_app
from coordinator.settings import CoordinatorSettings

if __name__ == "__main__":
    main(CoordinatorSettings, create_app)

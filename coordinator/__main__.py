"""`python -m coordinator`: run the service with settings from the environment."""

from common.service.serve import serve
from coordinator.app import create_app
from coordinator.settings import CoordinatorSettings

if __name__ == "__main__":
    settings = CoordinatorSettings()
    serve(create_app(settings), settings)

"""`python -m curator`: run the service with settings from the environment."""

from common.service.serve import serve
from curator.app import create_app
from curator.settings import CuratorSettings

if __name__ == "__main__":
    settings = CuratorSettings()
    serve(create_app(settings), settings)

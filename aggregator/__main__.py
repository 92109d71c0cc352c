"""`python -m aggregator`: run the service with settings from the environment."""

from aggregator.app import create_app
from aggregator.settings import AggregatorSettings
from common.service.serve import serve

if __name__ == "__main__":
    settings = AggregatorSettings()
    serve(create_app(settings), settings)

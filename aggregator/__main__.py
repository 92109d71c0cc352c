"""`python -m aggregator`: run the service with settings from the environment."""

from aggregator.app import create_app
from aggregator.settings import AggregatorSettings
from common.service.serve import main

if __name__ == "__main__":
    main(AggregatorSettings, create_app)

"""What the services answer: a model for each body, in the order of the API's tags."""

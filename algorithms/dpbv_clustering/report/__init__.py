"""The privacy report of a run: one module per method."""

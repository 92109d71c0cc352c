"""`tacit whatif`."""


def whatif() -> None:
    """Placeholder."""

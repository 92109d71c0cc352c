"""Tacit's Python client."""

from tacit.client import Client, Problem, RoundNotReleased

__all__ = ["Client", "Problem", "RoundNotReleased"]

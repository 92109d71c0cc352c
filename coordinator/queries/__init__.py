"""Queries and their periods."""

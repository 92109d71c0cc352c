"""Aggregators, curators, groups, join tokens."""

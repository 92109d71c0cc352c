"""Formats of markets and utilities: Green Button, NEM12, NEM13, MSCONS."""

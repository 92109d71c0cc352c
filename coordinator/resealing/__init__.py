"""Rotating the storage key: its routes, and the passes that seal everything anew."""

"""Drivers: rounds over a population, in process (`in_process`) or through services (`services`)."""

"""This aggregator's seal keys, which rounds name.

wrapping_keys    the directory of wrapping keys
seal_keys        how keys are made, found and destroyed, and the sessions under them in memory
"""

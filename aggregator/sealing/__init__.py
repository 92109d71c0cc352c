"""This aggregator's seal keys, which rounds name.

files        the directory of wrapping keys
seal_keys    how keys are made, found and destroyed
sessions     the sessions under them, in memory
"""

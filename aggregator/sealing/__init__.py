"""This aggregator's seal keys, which rounds of format 2 name in the place of epoch keys.

files        the directory of wrapping keys
seal_keys    how keys are made, found and destroyed
sessions     the sessions under them, in memory
"""

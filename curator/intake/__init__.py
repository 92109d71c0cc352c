"""Readings in: checked, batched, stored with the state of their counters.

intake          what happens when readings arrive; counters; readings that come late
reading         one reading on the wire
hosted_names    curators that one process hosts
routes          the HTTP of readings, other than files; many requests share a transaction
"""

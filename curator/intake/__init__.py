"""Readings in: checked, batched, stored with the state of their counters.

intake        what happens when readings arrive
reading       one reading on the wire
counters      counter values become differences
batching      many requests, one transaction
late          readings that come after their window was used
hosted, name_index    curators that one process hosts
routes        the HTTP of readings, other than files
"""

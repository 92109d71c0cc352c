"""A query: what is summed, over which readings, with which noise, against whom.

words          the enumerations, identifiers and limits that all parts use
sensitivity    how far one record or one curator moves a sum
fixedpoint     readings as whole steps of a resolution, and whether a sum can wrap
fields         the fields of a query, each checked by itself
functions      what is summed: the encoding of one curator's readings, and its decoding
mechanisms     who adds which noise, and how contributions are shared
query          `Query`: the fields, and the check that their arithmetic fits
"""

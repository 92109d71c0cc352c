"""A query: what is summed, over which readings, with which noise, against whom.

terms          the enumerations, identifiers and limits that all parts use
encoding       readings as whole steps of a resolution; how far a record or curator moves a sum
fields         the fields of a query, each checked by itself
tables         the columns of a contingency table, its cells and margins
functions      what is summed: the encoding of one curator's readings, and its decoding
mechanisms     who adds which noise, and how contributions are shared
query          `Query`: the fields, and the check that their arithmetic fits
"""

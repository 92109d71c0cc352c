"""Files of readings: CSV, Green Button and NEM12, mapped, parsed and stored line by line.

routes                             the HTTP of imports, and the choice of the format
csv_import                         an import from beginning to end
csv_columns                        which column means what, and its values
day_rows                           a day a row: which column is which interval
encoding                           UTF-16, Latin-1 and others
recognise                          what a file looks like
dry_run                            what a file would store
nem12                              interval data of the Australian market
green_button                       the feed, its codes and its import
upload                             bytes of a body, progress, rows that are counter values
units_and_local_time               what a map declares
"""

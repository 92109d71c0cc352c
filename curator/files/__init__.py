"""Files of readings: CSV and Green Button, mapped, parsed and stored line by line.

routes                             the HTTP of imports, and the choice of the format
csv_import                         an import from beginning to end
csv_columns                        which column means what, and its values
green_button                       the feed, its codes and its import
upload                             bytes of a body, progress, rows that are counter values
units_and_local_time               what a map declares
"""

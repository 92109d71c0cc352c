"""Files of readings: CSV and Green Button, mapped, parsed and stored line by line.

routes, options, multipart         the HTTP of imports: parameters, bytes
csv_import, green_button_import    an import from beginning to end
column_map, columns, time_column, units    which column holds what
lines, localtime, progress         lines of a stream, local times, how far an import is
counter_rows                       rows that are counter values
green_button, espi_types           the feed and its codes
"""

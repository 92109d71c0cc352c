"""Files of readings in many formats, mapped, parsed and stored.

routes                  the HTTP of imports
options                 the parameters of an import
recognise               what a file looks like
importer                recognises a file, reads it to its end, stores what it holds
storing                 where readings wait for the file's end, and how they are stored
dry_run                 what a file would store
metered                 files that name their meters: what their formats share
upload                  bytes of a body, progress
encoding                UTF-16, Latin-1 and others
units_and_local_time    what a map declares
tables                  CSV: header, columns, a day a row, and the import from beginning to end
market                  Green Button, NEM12, NEM13, MSCONS
devices                 DSMR, IEC 62056-21, SenML, InfluxDB, Home Assistant
"""

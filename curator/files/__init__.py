"""Files of readings in many formats, mapped, parsed and stored.

routes                             the HTTP of imports
options                            the parameters of an import
importer                           recognises a file, checks a large one first, imports it
storing                            what an import needs of the intake
csv_import                         an import from beginning to end
csv_columns                        which column means what, and its values
day_rows                           a day a row: which column is which interval
encoding                           UTF-16, Latin-1 and others
recognise                          what a file looks like
dry_run                            what a file would store
nem12                              interval data of the Australian market
metered                            files that name their meters: what follows
nem13                              accumulation meters of the Australian market
dsmr                               telegrams of the P1 port
iec62056                           OBIS lists and load profiles
mscons                             load profiles of the German market
senml, influx, home_assistant      of sensors
green_button                       the feed, its codes and its import
upload                             bytes of a body, progress
units_and_local_time               what a map declares
"""

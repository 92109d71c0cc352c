"""Parts of every service's store.

database, transactions     opening and migrating; what a store function works on
sqlite, postgresql         the two databases
meters                     transactions and statements as metrics
columns, migration         types of columns, migrations at start
writer                     many writes in one transaction
leader                     one process of several does a task
erasure                    destroyed secrets leave the files
"""

"""Parts of every service's store.

database, transactions     opening and migrating; what a store function works on
sqlite, postgresql         the two databases
columns, migration         types of columns, migrations at start
group_commit               many writes in one transaction
leader                     one process of several does a task
erasure                    destroyed secrets leave the files
"""

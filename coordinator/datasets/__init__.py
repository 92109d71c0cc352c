"""Datasets that the coordinator keeps for jobs, sealed on its disk, and the ledger of each.

datasets  what is kept, found, opened and deleted
ledger    what jobs may take of it, and what its rows add up to
upload    how a body becomes sealed parts, measured and validated
"""

"""Datasets that the coordinator keeps for jobs, sealed on its disk, and the ledger of each.

holding   what is kept, found, opened and deleted    ledger     what jobs may take of it
upload    how a body becomes sealed parts            accounts   what its rows add up to
content   sealed parts, measured and validated       routes     the HTTP of datasets
"""

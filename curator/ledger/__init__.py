"""Spending of each hosted curator, by window and collusion scenario.

ledger         debits, credits and limits
run_lengths    the same value for many curators in a row
"""

"""The audit of this aggregator's noise: what an auditor may open, and when.

audit, routes    the ledger of rounds and openings; its HTTP
noise_audit      what is kept of a local round for the noise audit
"""

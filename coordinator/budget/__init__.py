"""The coordinator's ledger of privacy budgets: events, what follows from them, and what is allowed.

Spec: budget. `events` is the chain, `state` the fold over it, `ledger` the two against the store.
"""

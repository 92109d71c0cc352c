"""The coordinator's ledger of privacy budgets: events, the state they lead to, and the limits.

Spec: budget. The chain of events is in `coordinator.models.budget_events`; `state` is the fold over
it, `ledger` the two against the store.
"""

"""The coordinator's ledger of privacy budgets: events, the state they lead to, and the limits.

Spec: budget. The chain of events is in `coordinator.models.budget_ledger`.

ledger, state                    the events in the store, their kinds, and the fold over them
charging                         debits of rounds, final charges, what parties report
roster, round_charges, spending  the curators, the rounds, and what was spent
limits                           how much may be spent
statement                        the privacy figures: claimed and verified
plans, forecast                  what a round would cost, and how long a limit lasts
screening                        curators that may be polluting
"""

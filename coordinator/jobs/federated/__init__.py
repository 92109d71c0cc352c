"""Federated jobs: the data stays at curators; steps are rounds or noisy reports.

conductor      advances every unfinished job
preparation    a request is checked, and its steps are planned as queries
lifecycle      a federated job begins, is cancelled and ends, and its one debit
rounds         the rounds of steps
reports        the noisy reports of steps
computing      outcomes, in processes apart
"""

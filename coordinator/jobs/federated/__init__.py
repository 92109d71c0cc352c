"""Federated jobs: the data stays at curators; steps are rounds or noisy reports.

conductor      advances every unfinished job
preparation    a request is checked, and its steps are planned
lifecycle      a federated job begins, is cancelled and ends
queries        a step that is a sum, as a query
rounds         the rounds of steps
reports        the noisy reports of steps
statements     what the result states about privacy
collecting     the long poll for jobs that collect reports
report_routes  the HTTP of steps and reports
"""

"""From a round's announcement to a settled contribution.

loop               finds rounds, plans a moment for each party, prepares and delivers, repeatedly
consent            which curators participate, which refuse and why
windows            the readings of a window
preparation        what readings and records become, in groups of bounded size
contribution       readings become sealed pieces, with the debit, in one transaction
delivery           the outbox is sent, with retries
settlement         signed statements of a round's final state, and expiry
noisy_reports, federated_steps    the steps of federated jobs
restoring          what a restored database may still do
"""

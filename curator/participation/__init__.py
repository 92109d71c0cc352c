"""From a round's announcement to a settled contribution.

loop            finds, prepares and delivers, repeatedly
planning        a moment for each party of a round that is listed
discovery       which rounds ask for these curators
consent         whether a policy allows a query
windows         the readings of a window
contribution    readings become sealed pieces, with the debit, in one transaction
preparing       what readings and records become before they are stored
grouping        hosted curators in groups of bounded size
delivery        the outbox is sent, with retries
settlement      signed statements of how a round ended
refusals        why a curator does not contribute
noisy_reports, federated_steps    the steps of federated jobs
restoring       what a restored database may still do
"""

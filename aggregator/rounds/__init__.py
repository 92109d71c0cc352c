"""The rounds of one aggregator, from announcement to the opened partial sum.

state_machine    states and transitions, one transaction each
opening          a round is opened, or refused
keying           a proved round gets its verify key
evaluating       its contributions are expanded and queried
exchanging       verifier shares travel in sealed chunks
deciding         which contributions count
verifying        from the candidates to the verdict
summing          pieces become one partial sum
committing       noise, commitment, reveal
differencing     which released sets exclude a new one
restoring        what a restored database may still do
routes           the HTTP of rounds
"""

"""The rounds of one aggregator, from announcement to the opened partial sum.

state_machine      states and transitions, one transaction each
opening            a round is opened, or refused; a proved round gets its verify key
verifier_shares    its contributions are evaluated, and the shares exchanged
verification       which contributions count
partial_sum        pieces become one partial sum: noise, commitment, reveal
differencing       which released sets exclude a new one
key_rotation       seal keys end by the clock or by command, and so does the identity
restoring          what a restored database may still do
routes             the HTTP of rounds
"""

"""What a curator's owner and the operator of its process see and decide.

statement              budget, contributions, counts of readings; the ledger's hash chain verified
curators               the curators of a process, for its operator
readings_received      what arrived by the hour, and how complete it is
policies               which policies hold; one tried on the past
stopping               taking part in nothing more, until started again
routes                 the HTTP of the owner, and what was published of a round
"""

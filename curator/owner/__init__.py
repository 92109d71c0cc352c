"""What a curator's owner and the operator of its process see and decide.

statement              budget, contributions and counts of readings, for the owner alone
curators               the curators of a process, for its operator
readings_received      what arrived by the hour, and how complete it is
policies               which policies hold; policy_trial: one tried on the past
stopping               taking part in nothing more, until started again
ledger_verification    the ledger's hash chain, against a checkpoint kept elsewhere
routes                 the HTTP of the owner, and what was published of a round
"""

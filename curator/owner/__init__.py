"""What a curator's owner and the operator of its process see and decide.

answers                what an answer was asked, and how well it is hidden
statement, unusable    budget, contributions and counts of readings, for the owner alone
policies               the default policy
stopping               taking part in nothing more, until started again
chain                  the ledger's hash chain, against a checkpoint kept elsewhere
routes, policy_routes, stop_routes, ledger_routes    the HTTP of all that
"""

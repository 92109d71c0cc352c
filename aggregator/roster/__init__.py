"""Who participates: the coordinator, the parties on the roster, and this aggregator's identity.

enrolment                  pairing, grants, enrolments, announced keys
senders                    the party of a token, and its seal keys ahead of its pieces
routes, identity_routes    the HTTP of the roster and of the identity
"""

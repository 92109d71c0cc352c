"""Who participates: the coordinator, the parties on the roster, and this aggregator's identity.

enrolment     pairing, grants, enrolments, announced keys, and the party of a token
identities    identities of the coordinator and of parties are followed; this aggregator's own
peers         the aggregators that its operator pinned
routes        the HTTP of the roster
"""

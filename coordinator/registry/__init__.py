"""Aggregators, curators, groups, join tokens.

members          aggregators are paired, parties enrol, leave and replace identities; groups
aggregators      their identities, health, and seal keys
own_identity     the coordinator's identity
peers            the calls to aggregators; peer_requests, answers: what these calls share
"""

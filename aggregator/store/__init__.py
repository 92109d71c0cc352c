"""All SQL of an aggregator.

No opened word is ever stored, except the partial sum with its noise inside, in the transaction of
its commitment (spec: hot-path, section 2).
"""

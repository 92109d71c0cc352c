"""Counting over curators: what is left of patterns, and how many bytes, beside one keeper.

    python -m bench.counting [--only n-grams ...] [--runs 3] [--quick]

curators    one process that splits records, counts, filters and adds noise, as rounds do
quality     what a release has kept of the data
tables      the tables of the plan, with its own figures beside them
shown       rows as text, and which figures differ by more than noise does

Spec: federated-counting, sections 8 and 13, checks 3, 6 and 13.
"""

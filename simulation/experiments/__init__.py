"""Reproductions of the sources' tables and figures: one module per id or family.

A module of this package joins the registry by a tuple `EXPERIMENTS` of `Experiment`s; nothing else
has to know it. Results have the shape of spec: jobs, "Reproductions".
"""

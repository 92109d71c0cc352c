"""The sources' tables and figures, run again beside what is printed: one module per id or family.

It uses the services and the library; neither imports it. A module of this package joins the
registry by a tuple `EXPERIMENTS` of `Experiment`s; nothing else has to know it. Results have
the shape of spec: jobs, "Reproductions".
"""

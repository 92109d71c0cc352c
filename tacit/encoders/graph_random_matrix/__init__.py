"""A curator's half of `graph-random-matrix` without a keeper: its own noisy row.

projection   the public matrices
reports      a vertex's row times the matrix, with its own noise
"""

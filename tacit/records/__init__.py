"""Sequences and sets of items as frozen arrays, and the readers of their files.

Spec: jobs, section "Datasets". The coordinator reads datasets with them, and a curator its own
records.

text_files  limits of a line and of a number; what is wrong, by row and column
items       sequences (with order and repetitions) and transactions (sets of items)
item_files  their files: text, NDJSON; SPMF and the layout of MSNBC; Parquet
"""

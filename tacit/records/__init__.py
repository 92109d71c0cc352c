"""Sequences and sets of items as frozen arrays, and the readers of their files.

Spec: jobs, section "Datasets". The coordinator reads datasets with them, and a curator its own
records.

reading             limits of a line and of a number; what is wrong, by row and column
sequences           lists with order and repetitions
sequences_files     their files: text, SPMF, NDJSON, the layout of MSNBC
transactions        sets of items
transactions_files  their files: text, NDJSON, Parquet
"""

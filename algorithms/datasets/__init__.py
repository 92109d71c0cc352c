"""The kinds of datasets that jobs take, as frozen arrays, and the readers of their files.

Spec: jobs, section "Datasets".
"""

"""The kinds of datasets that jobs take, as frozen arrays. Readers of files live beside them.

Spec: jobs, section "Datasets".
"""

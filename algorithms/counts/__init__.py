"""Adaptive counting: algorithms that read their data through noisy counts alone.

Spec: federated-counting, section 2.

    contract        questions, answers, the loop over both; thresholds and noise of a count
    keeper          answers from rows that one keeper holds; empty cells that pass by noise alone
    rounds          answers from curators, and a forecast of what they give and cost
    released_files  the released multiset as files, and how far its counts are from the true ones
"""

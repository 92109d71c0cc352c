"""Adaptive counting: algorithms that read their data through noisy counts alone.

Spec: federated-counting, section 2.

    contract    questions, answers, an algorithm's functions, and the loop over both
    keeper      answers from rows that one keeper holds
    empties     empty cells that pass by noise alone, without looking at every one
    laws        what a count must reach, and its draws, of both stances
    thresholds  the same where a sum holds more than one draw
    rounds      answers from curators
"""

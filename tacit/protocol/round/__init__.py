"""The messages of a round, and what every party checks of them.

descriptor  the descriptor; aborts and refusals
pieces      sealed pieces
messages    accepted sets, verdicts, manifest, commitments, reveals, transcript
agreement   the checks of a descriptor, and the manifest that signed sets give
opening     the checks of commitments, reveals and transcripts
"""

"""A round on the wire, and what everybody checks of it. Messages first, then the checks.

descriptor  what the parties agree on; aborts and refusals
pieces      sealed pieces
accepted    whose pieces an aggregator holds
verdicts    what aggregators of a proved round say to each other
transcript  manifest, commitments, reveals, transcript

agreement   the checks of a descriptor
manifests   the manifest that signed sets give
opening     the checks of commitments, reveals, transcripts
"""

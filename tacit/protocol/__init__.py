"""What parties sign and check. Who calls whom is the services' part.

enrolment      join tokens and identities
round/         descriptors, set documents, commitments, transcripts, and their checks
proved_rounds  the checks of a proved round: verify key, candidates, verdicts (extra `proofs`)
federation     what a job over curators asks of them, step by step
differencing   which released sets exclude a new one
trust          the keys that a verifier has pinned
"""

"""Secret sharing, sealing and signing of bytes. None of them knows a query.

sharing    additive over 2^64 and Shamir over a prime field
sealing    one party's bytes for one aggregator: X25519, HKDF, AES-256-GCM
signing    Ed25519 over canonical bytes with a label
"""

"""The other parties: their identities and keys, and this curator's own."""

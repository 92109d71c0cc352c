"""All SQL of the curator service, by theme; nothing outside this package knows a table.

`tables` declares them, `parties` keeps identities and keys, `readings` what devices sent,
`accounts` debits and totals, `outbox` rounds, contributions and sealed bytes, `history` what
their owner reads back.
"""

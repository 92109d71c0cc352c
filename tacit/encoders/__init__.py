"""What a curator computes on its own rows for a federated job: one package per algorithm."""

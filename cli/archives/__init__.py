"""Archives of a service: what belongs in them, how they are sealed, and how they are put back."""

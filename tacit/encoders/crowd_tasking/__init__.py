"""A curator's half of crowd tasking: one noisy report."""

"""A curator's half of k-means: counts and sums of its records for each centre."""

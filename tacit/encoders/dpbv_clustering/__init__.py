"""A curator's half of DPBV clustering: noisy bits, or a vector of cells."""

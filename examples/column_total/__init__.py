"""The noisy total of one column: `column-total`."""

from algorithms.column_total.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]

"""What better methods gain at the same epsilon: `python -m bench.utility`."""

"""What needs an operator: one list of conditions, which the first page and a metric show, and which
is sent to the outlets that settings name when one begins and when it ends."""

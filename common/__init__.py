"""What the three services share while they run: `runtime`, `store`, `web`.

Everything pure is in `tacit`. Nothing here knows a service or an algorithm.
"""

"""Where jobs run: processes, or a cluster, with heartbeats and limits.

execution    one attempt, inside the worker, with its heartbeat and its blocks
link         the worker's HTTP, and the outcome as one zip
own_workers  processes of the coordinator itself
cluster      a Dask scheduler with workers
"""

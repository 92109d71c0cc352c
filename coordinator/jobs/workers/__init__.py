"""Where jobs run: processes, or a cluster, with heartbeats and limits.

execution    one attempt, inside the worker
heartbeat    its reports to the coordinator, and the orders in return
link         the HTTP of both
cluster      a Dask scheduler with workers
blocks       work cut into blocks that several workers share
packing      what an algorithm returns, as files
"""

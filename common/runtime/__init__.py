"""The process that a service runs in: settings, limits, time, logs, metrics, tracing, TLS.

Nothing here knows a database or HTTP.
"""

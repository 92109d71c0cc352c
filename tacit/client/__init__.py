"""The Python client of the three services: `Client`, and `AsyncClient` with the same calls.

client      both clients, how they connect, and calls that every service accepts
exchange    requests with retries, long polls, and the calls that both clients share
objects, budget_objects, job_objects, query_objects    answers for notebooks: tables, frames, plots
problems    problem documents as exceptions
verification    checks of transcripts and seals
budget, curator, jobs, registry, rounds    the calls of one part of the API each
"""

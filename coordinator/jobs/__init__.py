"""Jobs: submitted, queued, run on Dask's workers, and what they published.

schedules                 federated jobs that are repeated, one for each period
submission                a job is checked, priced and queued
dispatcher                gives every job its attempts
federated                 jobs whose data stays at curators
attempts                  what an attempt may request of the coordinator, under its lease
results                   what a job published, comparisons, the documents of jobs
privacy_statements        what a job costs, and what its privacy report states in addition
workers                   what runs in a worker: one attempt, its heartbeat and its limits

Spec: jobs, sections "Jobs" and "Result".
"""

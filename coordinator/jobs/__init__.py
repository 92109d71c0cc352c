"""Jobs: submitted, queued, run on Dask's workers, and what they published.

routes, attempt_routes    the HTTP of jobs, for people and for workers
wiring                    the parts of one process, built
schedules                 federated jobs that are repeated, one for each period
submission                a job is checked, priced and queued
dispatcher                gives every job its attempts
federated                 jobs whose data stays at curators
attempts                  what an attempt may request of the coordinator, under its lease
results                   what a job published, and comparisons
privacy_statements        what its privacy report states in addition
workers                   what runs in a worker: one attempt, its heartbeat and its limits
prices                    what a job costs its dataset
views                     the documents that the API and the console show

Spec: jobs, sections "Jobs" and "Result".
"""

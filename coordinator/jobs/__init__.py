"""Jobs: asked for, queued, run on Dask's workers, and what they published.

In the coordinator: `prices` what a job costs its dataset; `submission` checks and queues it;
`dispatcher` gives every job its attempts; `cluster` the workers; `attempts` what an attempt may ask
of the coordinator, under its lease; `results` what a job left; `statements` its privacy report.
In a worker: `execution` one attempt; `link` its calls to the coordinator; `heart` its signs of
life and its limits; `blocks` work handed on to other workers.

Spec: jobs, sections "Jobs" and "Result".
"""

"""Predictable crowd sensing with Salus. Spec: crowd-tasking.

`parameters` what a publisher posts; `task` the same with every choice made, and what it costs;
`noise_law`, `prediction` mathematics of the noise and of errors; `window` bounded reports; `paper`
the source's floating noise; `aggregates` what a server computes of reports; `attacks` what it could
guess; `report`, `pictures`, `evaluation`; `algorithm` the central form. Devices:
`tacit.encoders.crowd_tasking`.
"""

from dataclasses import replace

from algorithms.crowd_tasking import algorithm
from algorithms.crowd_tasking.federated import REPORTS

ALGORITHM = replace(algorithm.ALGORITHM, reports=REPORTS)

__all__ = ["ALGORITHM"]

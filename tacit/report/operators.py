"""Who runs the aggregators, and what that is worth: one sentence for reports and pages.

Operators are declared. What addresses show beside that is not: aggregators on one machine are in
the hands of whoever runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine alone."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def one_machine(urls: Sequence[str]) -> str | None:
    """The warning where several aggregators run on one machine, by their addresses; else None."""
    hosts = ["localhost" if is_loopback(url) else urlsplit(url).hostname or url for url in urls]
    most = max(Counter(hosts).values(), default=0)
    if most < 2:
        return None
    if most == len(hosts):
        return (
            f"All {most} aggregators run on one machine, by their addresses: whoever runs it can "
            "do what all of them together can. This is a trial, whatever operators are declared."
        )
    return (
        f"{most} of {len(hosts)} aggregators run on one machine, by their addresses: whoever runs "
        "it can do what they together can, whatever operators are declared."
    )


def operators_statements(
    operators: Sequence[str] | None, urls: Sequence[str] = ()
) -> tuple[str, ...]:
    """What a report assumes about them. operators: of each aggregator, None where they are not
    known; urls: addresses of the aggregators, where these are known."""
    warning = one_machine(urls)
    if operators is None:
        declared = "The aggregators are run by different operators (not checked here)."
    elif len(set(operators)) < len(operators):
        declared = (
            f"{len(operators)} aggregators are run by {len(set(operators))} operators; an operator "
            "counts as one party that brings all its aggregators."
        )
    elif warning is None:
        declared = "Each aggregator is run by a different operator, as declared."
    else:
        declared = "Each aggregator declares a different operator."
    return (declared,) if warning is None else (declared, warning)

"""Whether a graph is a comparability graph: whether its edges can be directed transitively.

An object of one node for each vertex exists exactly then (spec: path-publishing, sections 0 and 7).
Edges ab and ac without an edge bc force each other: both leave a, or both enter it. A graph has a
transitive orientation if and only if no chain of such steps forces an edge both ways.
Source: M. C. Golumbic, Algorithmic Graph Theory and Perfect Graphs, theorem 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence


def orientable(adjacent: Sequence[int]) -> bool:
    """adjacent[i]: bit mask of the neighbours of vertex i, symmetric, without loops."""
    outgoing = [0] * len(adjacent)
    incoming = [0] * len(adjacent)
    for first, neighbours in enumerate(adjacent):
        rest = neighbours & ~(outgoing[first] | incoming[first]) & (-2 << first)
        while rest:
            second = rest & -rest
            stack = [(first, second.bit_length() - 1)]
            outgoing[first] |= second
            incoming[second.bit_length() - 1] |= 1 << first
            while stack:
                tail, head = stack.pop()
                tail_bit, head_bit = 1 << tail, 1 << head
                leaving = adjacent[tail] & ~adjacent[head] & ~head_bit
                entering = adjacent[head] & ~adjacent[tail] & ~tail_bit
                if leaving & incoming[tail] or entering & outgoing[head]:
                    return False
                new = leaving & ~outgoing[tail]
                outgoing[tail] |= new
                while new:
                    bit = new & -new
                    new ^= bit
                    other = bit.bit_length() - 1
                    incoming[other] |= tail_bit
                    stack.append((tail, other))
                new = entering & ~incoming[head]
                incoming[head] |= new
                while new:
                    bit = new & -new
                    new ^= bit
                    other = bit.bit_length() - 1
                    outgoing[other] |= head_bit
                    stack.append((other, head))
            rest = neighbours & ~(outgoing[first] | incoming[first]) & (-2 << first)
    return True

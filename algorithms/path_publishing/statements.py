"""The sentences of the privacy report. Spec: path-publishing, sections 4 and 9."""

from __future__ import annotations

from typing import Final

PUBLIC: Final = ("every parameter of the job",)
EXACT_MAP: Final = "Users hold the exact map of which the publication was made."
KNOWN_REST: Final = "Edges off the path are not secret: an adversary knows them anyway."
SECOND_PATH: Final = (
    "another path in the same map published in this mode: what is off the one is on the other"
)
GENUINE_KEYS: Final = "The recipients' public keys are genuine and their private keys secret."
TRUSTED: Final = "The coordinator, or who runs the job, sees map and path in the clear."
EVALUATION: Final = (
    "An evaluation against the true path is attached for the operator's eyes only; it is not "
    "private in any sense."
)
NOTHING_HOLDS: Final = (
    "A pair seen in G is certainly no step of the path: the ratio is infinite (4.3). Numbers of "
    "copies show rings with certainty (4.2). The levels are a function of the path's order, and "
    "replaying the algorithm found the missing edge in 97 to 100 of 100 measured cases (4.4)."
)

GRAPH_PATH_DISCLOSES: Final = (
    "G: every edge of the map off the path is in it, and every pair that is not in it is no such "
    "edge.",
    "The levels: whoever sorts by them reads half of the path's edges or more, without any map.",
    "The direction of the path, on purpose (Rule 5), and how often vertices appear.",
)
COMPLEMENT_DISCLOSES: Final = (
    "Every edge of the map off the path, with certainty and to everybody.",
    "The vertices and their number.",
    "That a pair which is not published is either a step of the path or no edge.",
)
RANDOMIZED_DISCLOSES: Final = (
    "The vertices and their number.",
    "Several pairs together: another path changes many pairs at once.",
    "The map is no secret key: it has no part in the protection.",
)
SEALED_DISCLOSES: Final = (
    "The length of the path, up to 1,024 bytes of its text, and the time.",
    "Nothing is hidden from a recipient, nor from whoever gets a recipient's key later.",
)

DEFECTS: Final = (
    "Lemma 6.1: the degree term is the same for all numbers of copies and cancels, so that low "
    "degrees get no more copies. Where a count of visits differs the ratio is infinite: a vertex "
    "of a ring never shows one copy. Copies are inserted last, and recognisable.",
    "Lemma 6.1, copies: each inherits all edges of its base, so that one edge is seen in every "
    "pair of copies. They make it easier, not harder, to find the missing edge.",
    "Lemma 6.2: bounds the ratio where the pair is in H only. Where it is in G the ratio is "
    "infinite. The best that holds for G alone is (0, p2)-DP with p2 of at least 1/2.",
    "Lemma 6.2: fake edges in G rule decoys out, and a larger epsilon_e draws more of them; what "
    "would conceal a missing edge are pairs in H.",
    "Theorem 6.1: the levels are not post-processing. They are drawn from the path's order.",
    "Algorithm 6.4 as printed never inserts the last vertex; Corollary 6.1's O(|V|) forgets to sum "
    "over the vertices; Proposition 6.2 should read ceil(n/2).",
)

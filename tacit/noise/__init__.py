"""Exact integer noise. Every sampler draws from a `NoiseSource`; none decides on a float."""

from tacit.noise.alias import AliasTable
from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_laplace import SCALE_LIMIT, DiscreteLaplace
from tacit.noise.distance import DRAW_DISTANCE, sampler_delta
from tacit.noise.floating import floating_laplace
from tacit.noise.polya import PolyaShare
from tacit.noise.self_test import SamplerCheck, SelfTest, self_test
from tacit.noise.vector import laplace, polya_shares, probabilistic_laplace

__all__ = [
    "DRAW_DISTANCE",
    "SCALE_LIMIT",
    "AliasTable",
    "Bernoulli",
    "DiscreteLaplace",
    "PolyaShare",
    "SamplerCheck",
    "SelfTest",
    "floating_laplace",
    "laplace",
    "polya_shares",
    "probabilistic_laplace",
    "sampler_delta",
    "self_test",
]

# SPDX-License-Identifier: MIT
"""emcee with schwimmbad's MPIPool: a Markov chain whose likelihoods workers find."""

import sys

import emcee
import numpy as np
from answer import tell
from schwimmbad import MPIPool

WALKERS, DIMENSIONS, STEPS = 16, 3, 60


def log_probability(x: np.ndarray) -> float:
    return -0.5 * float(((x - np.arange(DIMENSIONS)) ** 2).sum())


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    draw = np.random.RandomState(42)
    start = emcee.State(
        draw.normal(size=(WALKERS, DIMENSIONS)), random_state=draw.get_state()
    )
    sampler = emcee.EnsembleSampler(WALKERS, DIMENSIONS, log_probability, pool=pool)
    sampler.run_mcmc(start, STEPS)
    chain = sampler.get_chain(flat=True)
    tell(chain.mean(axis=0), chain.std(axis=0), sampler.acceptance_fraction)

# SPDX-License-Identifier: MIT
"""zeus: two chains at once, each with a pool of its own on half of the ranks."""

import random

import numpy as np
import zeus
from answer import tell
from zeus import ChainManager

WALKERS, DIMENSIONS, STEPS = 10, 2, 30


def log_probability(x: np.ndarray) -> float:
    return -0.5 * float((x**2).sum())


with ChainManager(2) as manager:
    np.random.seed(7 + manager.get_rank)
    random.seed(7 + manager.get_rank)
    start = np.random.normal(size=(WALKERS, DIMENSIONS))
    sampler = zeus.EnsembleSampler(
        WALKERS, DIMENSIONS, log_probability, pool=manager.get_pool, verbose=False
    )
    sampler.run_mcmc(start, STEPS, progress=False)
    chain = sampler.get_chain(flat=True)
    chains = manager.gather(chain, root=0)
    if manager.get_rank == 0:
        tell(*(part for one in chains for part in (one.mean(axis=0), one[-1])))

# SPDX-License-Identifier: MIT
"""libEnsemble over MPI: a manager, workers, and a simulation for each of them."""

import os
import tempfile

import numpy as np
from answer import tell
from libensemble import Ensemble
from libensemble.gen_funcs.sampling import latin_hypercube_sample
from libensemble.specs import ExitCriteria, GenSpecs, LibeSpecs, SimSpecs
from mpi4py import MPI

POINTS = 24


def simulated(points: np.ndarray, _info: object, _specs: object) -> tuple:
    result = np.zeros(len(points), dtype=[("f", float)])
    result["f"] = np.sin(points["x"]).sum(axis=1)
    return result, _info


folder = MPI.COMM_WORLD.bcast(tempfile.mkdtemp() if MPI.COMM_WORLD.rank == 0 else None)
os.chdir(folder)
ensemble = Ensemble(
    libE_specs=LibeSpecs(
        comms="mpi", disable_log_files=True, save_H_and_persis_on_abort=False
    ),
    sim_specs=SimSpecs(sim_f=simulated, inputs=["x"], outputs=[("f", float)]),
    gen_specs=GenSpecs(
        gen_f=latin_hypercube_sample,
        outputs=[("x", float, (3,))],
        user={"gen_batch_size": POINTS, "lb": np.zeros(3), "ub": np.ones(3)},
    ),
    exit_criteria=ExitCriteria(sim_max=POINTS),
)
ensemble.add_random_streams()
history, _, flag = ensemble.run()
if ensemble.is_manager:
    order = np.argsort(history["sim_id"])[:POINTS]
    tell(flag, history["x"][order], history["f"][order])

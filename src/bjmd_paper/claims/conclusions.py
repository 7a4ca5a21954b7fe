"""The closing section of the paper, which repeats its findings."""

import numpy as np

from bjmd_paper.claims import heterogeneity, noise, real_data, sweeps
from bjmd_paper.claims.evidence import found, restart_effects
from bjmd_paper.claims.rules import Claims, all_of, beats


def advi_is_worse_on_real_data(evidence):
    """The closed form of the same model over ADVI."""

    def cell(family):
        both = (evidence.score(family, fit).mean() for fit in ("cavi-bjmd", "advi-bjmd"))
        return restart_effects(family, np.subtract, *both)

    effects, lacking = found(
        [lambda family=family: cell(family) for family in evidence.real_families()]
    )
    return beats(effects).noting(lacking)


def _repeats(module_of):
    """A sentence that sums up claims of the sections above, {number: module}."""
    claims = {id: module.CLAIMS[id] for id, module in module_of.items()}
    return lambda evidence: all_of(evidence, **claims)


CLAIMS: Claims = {
    "Q1": _repeats({"N1": noise}),
    "Q2": _repeats({"H1a": heterogeneity, "L3": heterogeneity, "E1": sweeps, "E6": sweeps}),
    "Q3": _repeats({"E3": sweeps, "E9": sweeps}),
    "Q4": _repeats({"R1a": real_data, "R1b": real_data}),
    "Q5": _repeats({"E8a": sweeps, "R9": real_data}),
    "Q6": advi_is_worse_on_real_data,
}

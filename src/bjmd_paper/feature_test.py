"""The feature test: which features rise above the estimated noise.

A feature whose variance in a source is no larger than the source's noise carries no signal there.
For every source c and feature p the statistic (N_c - 1) S2_p / s2_c, with S2_p the sample variance,
is chi-square with N_c - 1 degrees of freedom if the feature is noise alone.  A feature passes in a
source if its upper tail is below level / M (Bonferroni).
"""

import numpy as np
import pandas as pd
from scipy.special import chdtrc, chdtri

from bjmd.errors import InputError


def feature_table(sources, noise, *, level=0.05, rule="all"):
    """One row per feature: variance, statistic, p-value and decision in every source.

    `noise` holds the noise sd of every source; a feature is kept if it passes in all, or in any, of
    the sources.
    """
    table = pd.DataFrame({"feature": sources.feature_names})
    passes = []
    for x, sd, name in zip(sources.data, noise, sources.names, strict=True):
        n = x.shape[1]
        variance = x.squares_around(x.means_of_rows) / (n - 1)
        statistic = (n - 1) * variance / sd**2
        p_value = chdtrc(n - 1, statistic)
        passes.append(p_value < level / sources.n_features)
        table[f"variance {name}"] = variance
        table[f"statistic {name}"] = statistic
        table[f"p {name}"] = p_value
        table[f"passes {name}"] = passes[-1]
    table["kept"] = np.all(passes, axis=0) if rule == "all" else np.any(passes, axis=0)
    return table


def threshold(sources, noise, level):
    """The smallest sample variance that passes in every source."""
    return [
        sd**2 * chdtri(n - 1, level / sources.n_features) / (n - 1)
        for sd, n in zip(noise, sources.n_samples, strict=True)
    ]


def filtered(sources, kept):
    """The same sources with the kept features only."""
    kept = np.flatnonzero(kept)
    if not kept.size:
        raise InputError("no feature passes the test; raise its level, or use the rule 'any'")
    return sources.replace(
        matrices=[x[kept] for x in sources.matrices],
        feature_names=[sources.feature_names[i] for i in kept],
    )

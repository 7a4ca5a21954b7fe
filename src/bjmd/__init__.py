"""Bayesian joint matrix decomposition of several data sources with heterogeneous noise.

Where things are:

    the model       model (the data, the priors, the objective), missing, chunked
    its inference   inference/ (map, cavi, advi, laplace), and what they are made of, numerics/
    baselines/      what it is compared with
    a fit           methods (the registry), restarts, decomposition (what every method returns), posterior, projection
    one's own data  estimator (BJMD), components (select), alignment, preparation, files/ (in and out), views, report,
                    cli (the command)
    the paper       datasets/, metrics, scores, selection, tables, plots, graphs, verdicts
    workflow/       what the Snakefile and its scripts need: plan (the config), resources, submission, provenance
    for all         storage, pages, matching, checks, errors
"""

import importlib

__version__ = "0.1.0"

_LAZY = {"BJMD": "bjmd.estimator", "select": "bjmd.components"}
"""Names that come from a module which is imported when they are first used, so that `import bjmd` stays light."""


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bjmd' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_LAZY])

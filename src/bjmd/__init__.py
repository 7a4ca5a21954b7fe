"""Bayesian joint matrix decomposition of several data sources with heterogeneous noise."""

import importlib

__version__ = "0.4.0"

_LAZY = {
    "BJMD": "bjmd.estimator",
    "Decomposition": "bjmd.results.decomposition",
    "Sources": "bjmd.data.sources",
    "fit": "bjmd.inference.registry",
    "load": "bjmd.estimator",
    "method_names": "bjmd.inference.registry",
    "pl": "bjmd.pl",
    "select": "bjmd.analysis.number_of_components",
    "tl": "bjmd.tl",
}
"""The public names; the module of each is imported when the name is first used, so that `import
bjmd` stays light.
"""

__all__ = ["BJMD", "Decomposition", "Sources", "fit", "load", "method_names", "pl", "select", "tl"]


def __getattr__(name):
    if name in _LAZY:
        module = importlib.import_module(_LAZY[name])
        return getattr(module, name, module)  # tl and pl are modules themselves
    raise AttributeError(f"module 'bjmd' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_LAZY])

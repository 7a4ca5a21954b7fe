"""What a config asks for: data sets, fits, restarts and their jobs, all checked before anything runs.

A family is a kind of data: the synthetic scales "small" and "large", each with one data set for every sigma3, and the
real data sets of the catalogue, each its own family; "<name>-filtered" is a real data set after feature selection.
A config with the key `own` runs one fit on the user's own files instead, and nothing of the paper.
"""

from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from bjmd.errors import InputError
from bjmd.fits import registry
from bjmd.paper.datasets import cards, catalogue, fetch
from bjmd.paper.datasets.synthetic import SCALES


class Plan:
    def __init__(self, config, schema_path):
        schema = yaml.safe_load(Path(schema_path).read_text())
        error = best_match(Draft202012Validator(schema).iter_errors(config))
        if error is not None:
            key = ".".join(str(part) for part in error.absolute_path) or "the top level"
            raise InputError(f"{error.message} at {key}; config/README.md lists every key")
        self.own = config.get("own")
        if self.own is not None:
            config = self._own_data_only(config)
        self.config = config
        # by method and name, because a config that is laid over another puts its own fits first
        self.fits = dict(sorted(config["fits"].items(), key=lambda item: (_rank(item[1]["method"]), item[0])))
        self.scales = config["synthetic"]["scales"]
        self.real = list(config["real"])
        for name in self.real:
            catalogue.get(name)
        if config["skip_missing"]:
            where = {"mirror": config["mirror"], "cache": config["cache"]}
            self.real = [name for name in self.real if fetch.at_hand(name, **where)]
        self.left_out = [name for name in config["real"] if name not in self.real]
        if self.real and config["selection"]["fit"] not in self.fits:
            raise InputError(f"selection.fit is {config['selection']['fit']!r}, which is not an entry of fits")
        for name in self.fits:
            try:
                self._check_fit(name)
            except InputError as problem:
                key = "own" if self.own is not None else f"fits.{name}"
                raise InputError(f"{key}: {problem}") from None

    def _own_data_only(self, config):
        """The config with one fit, that on the user's own data, and without the paper's data."""
        for path in self.own_files():
            if not Path(path).is_file():
                raise InputError(f"own: there is no file {path}; paths start from the folder in which snakemake runs")
        fit = {"method": self.own["method"], "label": self.own["name"], "options": self.own.get("options", {})}
        synthetic = {**config["synthetic"], "scales": []}
        return {**config, "synthetic": synthetic, "real": [], "best": 1, "fits": {"own": fit}}

    def _check_fit(self, name):
        fit = self.fits[name]
        registry.check_options(fit["method"], fit.get("options", {}))
        if self.n_restarts(name) < self.n_best(name):
            raise InputError(
                f"{self.n_restarts(name)} restarts are fewer than best = {self.n_best(name)}; change one of the two"
            )
        known = [*SCALES, *catalogue.names(), *(f"{name}-filtered" for name in catalogue.names())]
        for family in [*fit.get("data", []), *fit.get("sweep", [])]:
            if family not in known:
                raise InputError(f"there is no data {family!r}; known are {', '.join(known)}")

    def families(self):
        return [*self.scales, *self.real, *(f"{name}-filtered" for name in self.filtered())]

    def filtered(self):
        """The real data sets of this run that are also run after feature selection."""
        return [name for name in self.config["selection"]["data"] if name in self.real]

    def family(self, dataset):
        """The family that a data set belongs to: small-4.0 is of small, yale-b of itself."""
        scale = dataset.rsplit("-", 1)[0]
        return scale if scale in SCALES else dataset

    def shown(self, family):
        """The data set of a family that its tables show."""
        return f"{family}-{float(self.config['synthetic']['table_sigma3'])}" if family in SCALES else family

    def sweep(self, scale):
        """The data sets of one scale at every sigma3."""
        return [f"{scale}-{float(sigma3)}" for sigma3 in self.config["synthetic"]["sigma3"]]

    def datasets(self):
        """All data sets of the run."""
        shown = [self.shown(family) for family in self.families()]
        return list(dict.fromkeys([*shown, *(name for scale in self.scales for name in self.sweep(scale))]))

    def fits_on(self, dataset):
        """The fits that run on one data set."""
        family = self.family(dataset)
        return [
            name
            for name, fit in self.fits.items()
            if family in fit.get("data", [family])
            and (dataset == self.shown(family) or family in fit.get("sweep", [family]))
        ]

    def method(self, fit):
        return self.fits[fit]["method"]

    def options(self, fit):
        return self.fits[fit].get("options", {})

    def n_restarts(self, fit):
        return self.fits[fit].get("restarts", self.config["restarts"])

    def n_best(self, fit):
        return self.fits[fit].get("best", self.config["best"])

    def chunks(self, fit):
        """(first, last) restart of every job of one fit."""
        n, size = self.n_restarts(fit), self.fits[fit].get("chunk", self.config["chunk"])
        return [(first, min(first + size, n) - 1) for first in range(0, n, size)]

    def n_components(self, dataset):
        """As many as the synthetic data have, or as the real data have classes, like the paper; own data say it."""
        if self.own is not None:
            return self.own["n_components"]
        family = self.family(dataset).removesuffix("-filtered")
        return SCALES[family].n_components if family in SCALES else cards.PAPER[family].classes

    def nonnegative(self, dataset, fit):
        """How the data are made non-negative for this fit; None if its method takes them as they are."""
        if not registry.get(self.method(fit)).nonnegative:
            return None
        return self.config["nonnegative"].get(self.family(dataset).removesuffix("-filtered"), "as-is")

    def own_files(self):
        """All files of the user's own data."""
        labels = self.own.get("labels")
        return [*self.own["sources"], *([] if labels is None else [labels])]

    def own_reading(self):
        """How `readers.read_tables` reads them."""
        own = self.own
        return {
            "paths": own["sources"],
            "samples_in_rows": own.get("samples_in_rows", False),
            "split_by": own.get("split_by"),
        }

    def own_preparation(self):
        """How `own_data.prepare` brings them together."""
        own = self.own
        return {
            "names": own.get("names"),
            "labels": own.get("labels"),
            "join": own.get("join", "outer"),
            "scale": own.get("scale", "none"),
        }

    def fits_table(self):
        """What every fit is and how often it runs, a row each."""
        return [
            {
                "fit": name,
                "method": self.method(name),
                "options": ", ".join(f"{key} = {value}" for key, value in self.options(name).items()) or "defaults",
                "restarts": self.n_restarts(name),
                "chosen": self.n_best(name),
                "data": ", ".join(family for family in self.families() if name in self.fits_on(self.shown(family))),
            }
            for name in self.fits
        ]

    def rows(self):
        """The rows of the tables: the fits, and the truth where it is known."""
        return {**self.fits, "truth": {"label": "True H (control)"}}


def _rank(method):
    """Where a method stands in the tables; an unknown one is last here, and refused when its fit is checked."""
    return registry.method_names().index(method) if method in registry.method_names() else len(registry.method_names())

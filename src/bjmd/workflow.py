"""What the Snakemake workflow needs beyond the methods: a validated plan of the run, and the frame of its scripts."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from bjmd import methods
from bjmd.datasets.synthetic import SCALES
from bjmd.errors import FitError, InputError


class Plan:
    """The names of everything that a config asks for."""

    def __init__(self, config, schema_path):
        self.config = config
        schema = yaml.safe_load(Path(schema_path).read_text())
        error = best_match(Draft202012Validator(schema).iter_errors(config))
        if error is not None:
            key = ".".join(str(part) for part in error.absolute_path) or "the top level"
            raise InputError(f"{error.message} at {key}; config/README.md lists every key")
        for name, fit in self.config["fits"].items():
            try:
                methods.check_options(fit["method"], fit.get("options", {}))
            except InputError as problem:
                raise InputError(f"fits.{name}: {problem}") from None
            if self.n_restarts(name) < config["best"]:
                raise InputError(
                    f"fits.{name} has {self.n_restarts(name)} restarts, fewer than best = {config['best']}; raise one "
                    "or lower the other"
                )
            for family in fit.get("data", []):
                if family not in SCALES:
                    raise InputError(f"fits.{name}.data names {family!r}; known are {', '.join(SCALES)}")

    @property
    def scales(self):
        return self.config["synthetic"]["scales"]

    def sweep(self, scale):
        """The data sets of one scale at every sigma3."""
        return [f"{scale}-{float(sigma3)}" for sigma3 in self.config["synthetic"]["sigma3"]]

    def table_dataset(self, scale):
        """The data set of one scale that the tables show."""
        return f"{scale}-{float(self.config['synthetic']['table_sigma3'])}"

    def fits_on(self, dataset):
        """The fits that run on one data set."""
        scale = dataset.rsplit("-", 1)[0]
        return [
            name
            for name, fit in self.config["fits"].items()
            if scale in fit.get("data", SCALES) and (fit.get("sweep", True) or dataset == self.table_dataset(scale))
        ]

    def method(self, fit):
        return self.config["fits"][fit]["method"]

    def options(self, fit):
        return self.config["fits"][fit].get("options", {})

    def n_restarts(self, fit):
        return self.config["fits"][fit].get("restarts", self.config["restarts"])

    def chunks(self, fit):
        """(first, last) restart of every job of one fit."""
        n, size = self.n_restarts(fit), self.config["fits"][fit].get("chunk", self.config["chunk"])
        return [(first, min(first + size, n) - 1) for first in range(0, n, size)]

    def n_components(self, dataset):
        return SCALES[dataset.rsplit("-", 1)[0]].n_components


def run_script(main: Callable, snakemake):
    """Run the body of a workflow script: log to its log file, and turn a known problem into one sentence and exit 1."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", handlers=[logging.FileHandler(snakemake.log[0], mode="w")]
    )
    logging.captureWarnings(True)
    try:
        main(snakemake)
    except (InputError, FitError) as error:
        logging.error("%s", error)
        print(f"{snakemake.rule}: {error}", file=sys.stderr)
        sys.exit(1)

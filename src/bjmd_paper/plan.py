"""What a config asks for: data sets, fits, restarts and their jobs, all checked before anything
runs.

A family is a kind of data: the synthetic scales "small" and "large", each shown by one data set,
and the real data sets of the catalogue, each its own family; "<name>-filtered" is a real data set
after the feature test.  Beside the data set that is shown, a synthetic scale has many draws at
every sigma3; a job makes one of them, fits it and keeps the scores. A config with the key `own`
runs one fit on the user's own files instead, and nothing of the paper.
"""

from pathlib import Path

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import best_match

from bjmd.checks import true_or_false
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper.datasets import catalogue, fetch

TABLE_ORDER = (
    "map-bjmd",
    "map-catbjmd",
    "cavi-bjmd",
    "cavi-catbjmd",
    "advi-bjmd",
    "advi-catbjmd",
    "jmd",
    "glad",
    "kmeans",
    "jnmf",
    "semi-nmf",
    "bnmf",
    "intnmf",
    "inmf",
    "random",
)
"""The methods in the order of the tables; those of other packages follow."""
KINDS = {"synthetic": ("synthetic",), "real": ("real", "filtered"), "filtered": ("filtered",)}
"""What a fit's `data` may say in place of names, and the kinds of families that this stands for."""


class Plan:
    def __init__(self, config, schema_path, files=()):
        """A config, checked against its schema; `files` are those that it was read from."""
        for path in files:
            _require_single_keys(path, yaml.compose(Path(path).read_text(encoding="utf-8")))
        _require_text_keys(config)
        schema = yaml.safe_load(Path(schema_path).read_text())
        error = best_match(_Validator(schema).iter_errors(config))
        if error is not None:
            key = ".".join(str(part) for part in error.absolute_path) or "the top level"
            raise InputError(f"{error.message} at {key}; config/README.md lists every key")
        self.own = config.get("own")
        if self.own is not None:
            config = self._own_data_only(config)
        self.config = config
        self.scales = config["synthetic"]["scales"]
        self.table_sigma3 = float(config["synthetic"]["table_sigma3"])
        # by method and name, because a config that is laid over another puts its own fits first;
        # null leaves a fit out
        fits = [(name, fit) for name, fit in config["fits"].items() if fit is not None]
        self.fits = dict(sorted(fits, key=lambda item: (_rank(item[1]["method"]), item[0])))
        self.real = [catalogue.get(name).name for name in config["real"]]
        if config["skip_missing"]:
            where = {"mirror": config["mirror"], "cache": config["cache"]}
            self.real = [name for name in self.real if fetch.at_hand(name, **where)]
        self.left_out = [name for name in config["real"] if name not in self.real]
        if (self.filtered() or self.feature_draws()) and config["feature_test"][
            "fit"
        ] not in self.fits:
            raise InputError(
                f"feature_test.fit is {config['feature_test']['fit']!r}, which is not an entry of fits"
            )
        numbers = {f"draws.{scale}": config["draws"][scale] for scale in self.scales}
        for key, asked in {**numbers, "feature_draws": config["feature_draws"]}.items():
            try:
                _check_numbers(asked["restarts"], asked["best"])
            except InputError as problem:
                raise InputError(f"{key}: {problem}") from None
        for name in self.fits:
            try:
                self._check_fit(name)
            except InputError as problem:
                key = "own" if self.own is not None else f"fits.{name}"
                raise InputError(f"{key}: {problem}") from None
        idle = next(
            (family for family in self.families() if not self.fits_on(self.shown(family))), None
        )
        if self.own is None and (idle or not (self.families() or self.left_out)):
            what = f"no fit runs on {idle}" if idle else "synthetic.scales and real are empty"
            raise InputError(
                f"{what}, so there is nothing to run; name data there, or in the data of the fits"
            )

    def _own_data_only(self, config):
        """The config with one fit, that on the user's own data, and without the paper's data."""
        for path in self.own_files():
            if set("{}\n*?[]") & set(path):
                raise InputError(
                    f"own: {path!r} has a bracket, a star or a line end in its name; rename the file"
                )
            if not Path(path).is_file():
                raise InputError(
                    f"own: there is no file {path}; paths start from the folder in which snakemake runs"
                )
        fit = {
            "method": self.own["method"],
            "label": self.own["name"],
            "options": self.own.get("options", {}),
        }
        synthetic = {**config["synthetic"], "scales": []}
        return {**config, "synthetic": synthetic, "real": [], "best": 1, "fits": {"own": fit}}

    def _check_fit(self, name):
        fit = self.fits[name]
        options = fit.get("options", {})
        registry.check_options(fit["method"], options)
        true_or_false("offsets", options.get("offsets", False))
        if "noise" in options:
            from bjmd.inference.noise import parsed  # with numba, for which a job need not wait

            parsed(options["noise"])
        for family in {*fit.get("data", []), *self._by_data(name)} - KINDS.keys():
            catalogue.family(family)
        for family in (None, *self._by_data(name)):
            _check_numbers(self.n_restarts(name, family), self.n_best(name, family))

    def families(self):
        return [*self.scales, *self.real, *(f"{name}-filtered" for name in self.filtered())]

    def filtered(self):
        """The real data sets of this run that are also run after the feature test."""
        return [name for name in self.real if catalogue.get(name).feature_test]

    def family(self, dataset):
        """The family that a data set belongs to: small-4.0 is of small, yale-b of itself."""
        scale = dataset.rsplit("-", 1)[0]
        return scale if scale in self.scales else dataset

    def shown(self, family):
        """The data set of a family that its tables show."""
        return f"{family}-{self.table_sigma3}" if family in self.scales else family

    def datasets(self):
        """All data sets of the run, but for the draws."""
        return [self.shown(family) for family in self.families()]

    def fits_on(self, dataset):
        """The fits that run on one data set."""
        family = self.family(dataset)
        return [name for name, fit in self.fits.items() if _is_among(family, fit.get("data"))]

    def levels(self):
        """Every sigma3 of the draws."""
        return [float(sigma3) for sigma3 in self.config["synthetic"]["sigma3"]]

    def draws(self, scale):
        """The numbers of the draws of one scale, if any fit runs on them."""
        return range(self.config["draws"][scale]["number"] if self.fits_on_draws(scale) else 0)

    def draw_chunks(self, scale):
        """The same as "first-last" of each job."""
        return _chunks(len(self.draws(scale)), self.config["draws"][scale]["chunk"])

    def fits_on_draws(self, scale):
        """The fits that run on every draw of one scale."""
        return [name for name, fit in self.fits.items() if scale in fit.get("draws", ())]

    def draw_job(self, scale):
        """What a job of draws needs to know."""
        jobs = {fit: self.job(scale, fit) for fit in self.fits_on_draws(scale)}
        return {"levels": self.levels(), "jobs": jobs, **_restarts(self.config["draws"][scale])}

    def advi_draws(self):
        """The draws of the small data on which ADVI is watched."""
        return range(self.config["advi_traces"]["number"] if "small" in self.scales else 0)

    def advi_draw_chunks(self):
        """The same as "first-last" of each job."""
        return _chunks(len(self.advi_draws()), self.config["advi_traces"]["chunk"])

    def feature_draws(self):
        """The draws of the small data on which the feature test is tried."""
        return range(self.config["feature_draws"]["number"] if "small" in self.scales else 0)

    def feature_draw_chunks(self):
        """The same as "first-last" of each job."""
        return _chunks(len(self.feature_draws()), self.config["feature_draws"]["chunk"])

    def feature_draw_job(self):
        """What a job of them needs to know: all fits on the small data but slow ones and chance."""
        asked = self.config["feature_draws"]
        test = self.config["feature_test"]
        quick = [
            fit
            for fit in self.fits_on(self.shown("small"))
            if not self.is_slow(fit) and self.fits[fit]["method"] != "random"
        ]
        fits = dict.fromkeys([*quick, test["fit"]])
        return {
            "extras": asked["extra"],
            "jobs": {fit: self.job("small", fit) for fit in fits},
            "noise_from": [fit for fit in asked["noise_from"] if fit in fits],
            **_restarts(asked),
            "sigma3": self.table_sigma3,
            "fit": test["fit"],
            "level": test["level"],
        }

    def is_slow(self, fit):
        """Whether a fit takes tens of thousands of gradient steps, as ADVI does."""
        return self.fits[fit]["method"].startswith("advi")

    def n_restarts(self, fit, family=None):
        """How often a fit runs, on one family if that has a number of its own."""
        return self._number("restarts", fit, family)

    def n_best(self, fit, family=None):
        """How many of them are averaged."""
        return self._number("best", fit, family)

    def _number(self, key, fit, family):
        common = self.config.get("by_data", {}).get(family, {}).get(key, self.config[key])
        entry = self.fits[fit]
        return entry.get("by_data", {}).get(family, {}).get(key, entry.get(key, common))

    def _by_data(self, fit):
        """The families for which a fit has numbers of its own."""
        entry = self.fits[fit]
        own = {"restarts", "best"} & entry.keys()
        return [*entry.get("by_data", {}), *({} if own else self.config.get("by_data", {}))]

    def chunks(self, dataset, fit):
        """The files of one fit on one data set: each job runs a chunk of the restarts."""
        n = self.n_restarts(fit, self.family(dataset))
        size = self.fits[fit].get("chunk", self.config["chunk"])
        return [f"results/fits/{dataset}/{fit}/{chunk}.npz" for chunk in _chunks(n, size)]

    def n_components(self, dataset):
        """As many as the synthetic data have, or as the real data have classes, like the paper; own
        data say it.
        """
        return (
            self.own["n_components"]
            if self.own
            else catalogue.family(self.family(dataset)).n_components
        )

    def job(self, dataset, fit):
        """What a fit job needs to know: the method, its options, K, and how the data are made
        non-negative, or None.
        """
        method = self.fits[fit]["method"]
        nonnegative = None
        if registry.get(method).nonnegative:
            nonnegative = (
                "as-is" if self.own else catalogue.family(self.family(dataset)).nonnegative
            )
        return {
            "method": method,
            "options": self.fits[fit].get("options", {}),
            "n_components": self.n_components(dataset),
            "nonnegative": nonnegative,
        }

    def own_files(self):
        """All files of the user's own data."""
        labels = self.own.get("labels")
        return [*self.own["sources"], *([] if labels is None else [labels])]

    def own_settings(self):
        """How `readers.read_files` reads them, and how `assembly.prepare` brings them together."""
        own = self.own
        # jobs hand the data on as files of their own, so they are read into memory once
        reading = {
            "samples_in_rows": own.get("samples_in_rows", False),
            "split_by": own.get("split_by"),
        }
        reading["on_disk"] = False
        preparation = {"names": None, "join": "outer", "scale": "none"}
        return {
            "reading": {"paths": own["sources"], **reading},
            "labels": own.get("labels"),
            "preparation": {key: own.get(key, default) for key, default in preparation.items()},
        }

    def fits_table(self):
        """What every fit is and how often it runs, a row each."""
        return [
            {
                "fit": name,
                "method": fit["method"],
                "options": ", ".join(
                    f"{key} = {value}" for key, value in fit.get("options", {}).items()
                )
                or "defaults",
                "restarts": self._in_words(self.n_restarts, name),
                "chosen": self._in_words(self.n_best, name),
                "data": ", ".join(
                    family for family in self.families() if name in self.fits_on(self.shown(family))
                ),
            }
            for name, fit in self.fits.items()
        ]

    def _in_words(self, number, fit):
        others = (f"{number(fit, family)} on {family}" for family in self._by_data(fit))
        return "; ".join([str(number(fit)), *others])

    def rows(self):
        """Label and paper's row of every row of the tables: the fits, and the truth where it is
        known.
        """
        keys = ("label", "paper_row")
        rows = {
            name: {key: fit[key] for key in keys if key in fit} for name, fit in self.fits.items()
        }
        return {**rows, "truth": {"label": "True H (control)"}}


_Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: (
                isinstance(value, int) and not isinstance(value, bool)
            ),  # 4.0 is none
            "number": lambda _, value: (
                isinstance(value, int | float) and value == value and abs(value) != float("inf")
            ),
        }
    ),
)


def _require_single_keys(path, node):
    """Refuse a key that is given twice, of which YAML takes the last without a word."""
    children = [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else []
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        double = next((key for key in keys if keys.count(key) > 1), None)
        if double is not None:
            raise InputError(f"{path} has the key {double!r} more than once; keep one of them")
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    for child in children:
        _require_single_keys(path, child)


def _require_text_keys(value):
    if isinstance(value, dict):
        for key, below in value.items():
            if not isinstance(key, str) or key != key.strip():
                raise InputError(f"the key {key!r} is not a name; put letters in it")
            _require_text_keys(below)


def _check_numbers(n_restarts, n_best):
    if n_restarts < n_best:
        raise InputError(
            f"restarts = {n_restarts} is less than best = {n_best}; change one of the two"
        )


def _chunks(number, size):
    """What jobs of `size` do: "0-9", "10-19" and so on; the last may have less to do."""
    return [f"{first}-{min(first + size, number) - 1}" for first in range(0, number, size)]


def _restarts(asked):
    return {"n_restarts": asked["restarts"], "n_best": asked["best"]}


def _is_among(family, data):
    """Whether a list of names and kinds of data covers a family; no list covers all."""
    if data is None or family in data:
        return True
    kinds = {kind for word in data for kind in KINDS.get(word, ())}
    return bool(kinds) and catalogue.family(family).kind in kinds


def _rank(method):
    """Where a method stands in the tables; one that is not listed comes last."""
    return TABLE_ORDER.index(method) if method in TABLE_ORDER else len(TABLE_ORDER)

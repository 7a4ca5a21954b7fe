"""What a config asks for: data sets, fits, restarts and their jobs.

A family is a kind of data: the synthetic scales "small" and "large", each shown by one data set,
and the real data sets of the catalogue, each its own family; "<name>-filtered" is a real data set
after the feature test.  Beside the data set that is shown, a synthetic scale has many draws at
every sigma3; a job makes some of them, fits them and keeps the scores.  A config with the key
`own` runs one fit on the user's own files instead, and nothing of the paper.
"""

from pathlib import Path

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


def validate(config, schema):
    """Refuse a config that does not match its schema."""
    from snakemake.exceptions import WorkflowError
    from snakemake.utils import validate as validate_by_schema

    try:
        validate_by_schema(config, str(schema))
    except WorkflowError as error:
        problem = error.__context__  # Snakemake's own text repeats the whole schema
        key = ".".join(map(str, problem.absolute_path)) or "the top level"
        raise InputError(f"{problem.message} at {key}; config/README.md lists every key") from None


class Plan:
    """What a valid config asks for; `check` finds what a schema cannot."""

    def __init__(self, config):
        self.own = config.get("own")
        if self.own is not None:
            config = _own_data_only(config)
        self.config = config
        self.scales = config["synthetic"]["scales"]
        self.table_sigma3 = float(config["synthetic"]["table_sigma3"])
        # A config that overrides another puts its fits first, and null leaves a fit out.
        fits = [(name, fit) for name, fit in config["fits"].items() if fit is not None]
        self.fits = dict(sorted(fits, key=lambda item: (_rank(item[1]["method"]), item[0])))
        self.real = list(config["real"])
        if config["skip_missing"]:
            where = {"mirror": config["mirror"], "cache": config["cache"]}
            self.real = [name for name in self.real if fetch.at_hand(name, **where)]
        self.left_out = [name for name in config["real"] if name not in self.real]

    def check(self):
        """Refuse names that do not exist and numbers that contradict each other."""
        if self.own is None:
            self._check_paper()
        else:
            self._check_own_files()
        for name in self.fits:
            try:
                self._check_fit(name)
            except InputError as problem:
                key = "own" if self.own is not None else f"fits.{name}"
                raise InputError(f"{key}: {problem}") from None

    def _check_paper(self):
        for name in self.real:
            catalogue.get(name)
        test = self.config["feature_test"]["fit"]
        if (self.filtered() or self.feature_draw_chunks()) and test not in self.fits:
            raise InputError(f"feature_test.fit is {test!r}, which is not an entry of fits")
        for scale in self.scales:
            _check_numbers(f"draws.{scale}: ", **_restarts(self.config["draws"][scale]))
        _check_numbers("feature_draws: ", **_restarts(self.config["feature_draws"]))
        if not (self.families() or self.left_out):
            raise InputError("synthetic.scales and real are empty, so there is nothing to run")
        for family in self.families():
            if not self.fits_on(self.shown(family)):
                raise InputError(f"no fit runs on {family}; add it to the data of a fit")

    def _check_own_files(self):
        for path in self.own_files():
            if set("{}\n*?[]") & set(path):
                raise InputError(
                    f"own: {path!r} has a bracket, a star or a line end in its name; rename it"
                )
            if not Path(path).is_file():
                raise InputError(
                    f"own: there is no file {path}; paths are relative to snakemake's folder"
                )

    def _check_fit(self, name):
        from bjmd.analysis import fitting  # which imports numba

        fit = self.fits[name]
        options = fit.get("options", {})
        fitting.refuse_auto(options)
        registry.check_options(fit["method"], options)
        for family in {*fit.get("data", []), *self._by_data(name)} - KINDS.keys():
            catalogue.family(family)
        for family in (None, *self._by_data(name)):
            _check_numbers("", self.n_restarts(name, family), self.n_best(name, family))

    def families(self):
        return [*self.scales, *self.real, *(f"{name}-filtered" for name in self.filtered())]

    def filtered(self):
        """The real data sets of this run that are also run after the feature test."""
        return [name for name in self.real if catalogue.get(name).feature_test]

    def mixtures(self):
        """The real data sets of this run whose samples are mixtures of known shares."""
        return [name for name in self.real if catalogue.get(name).shares]

    def family(self, dataset):
        """The family that a data set belongs to: small-4.0 is of small, yale-b of itself."""
        scale = dataset.rsplit("-", 1)[0]
        return scale if scale in self.scales else dataset

    def shown(self, family):
        """The data set of a family that its tables show."""
        return f"{family}-{self.table_sigma3}" if family in self.scales else family

    def datasets(self):
        """All data sets of the run except the draws."""
        return [self.shown(family) for family in self.families()]

    def fits_on(self, dataset):
        """The fits that run on one data set."""
        family = self.family(dataset)
        return [name for name, fit in self.fits.items() if _covers(fit.get("data"), family)]

    def levels(self):
        """Every sigma3 of the draws."""
        return [float(sigma3) for sigma3 in self.config["synthetic"]["sigma3"]]

    def fits_on_draws(self, scale):
        """The fits that run on every draw of one scale."""
        return [name for name, fit in self.fits.items() if scale in fit.get("draws", ())]

    def draw_chunks(self, scale):
        """The draws of one scale as "first-last" of each job; none if no fit runs on them."""
        return _chunks(self.config["draws"][scale]) if self.fits_on_draws(scale) else []

    def draw_job(self, scale):
        """What a job of draws needs to know."""
        jobs = {fit: self.job(scale, fit) for fit in self.fits_on_draws(scale)}
        return {"levels": self.levels(), "jobs": jobs, **_restarts(self.config["draws"][scale])}

    def advi_draw_chunks(self):
        """The same for the draws of the small data on which ADVI is watched."""
        return _chunks(self.config["advi_traces"]) if "small" in self.scales else []

    def feature_draw_chunks(self):
        """The same for the draws of the small data on which the feature test is tried."""
        return _chunks(self.config["feature_draws"]) if "small" in self.scales else []

    def feature_draw_job(self):
        """What a job of them needs to know: every fit on the small data except ADVI and chance."""
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
        """How many of the restarts are averaged."""
        return self._number("best", fit, family)

    def _number(self, key, fit, family):
        common = self.config.get("by_data", {}).get(family, {}).get(key, self.config[key])
        entry = self.fits[fit]
        return entry.get("by_data", {}).get(family, {}).get(key, entry.get(key, common))

    def _by_data(self, fit):
        """The families for which a fit has numbers of its own."""
        entry = self.fits[fit]
        has_numbers = "restarts" in entry or "best" in entry
        common = {} if has_numbers else self.config.get("by_data", {})
        return [*entry.get("by_data", {}), *common]

    def chunks(self, dataset, fit):
        """The files of one fit on one data set: each job runs a chunk of the restarts."""
        chunks = _chunks(
            {
                "number": self.n_restarts(fit, self.family(dataset)),
                "chunk": self.fits[fit].get("chunk", self.config["chunk"]),
            }
        )
        return [f"results/fits/{dataset}/{fit}/{chunk}.npz" for chunk in chunks]

    def n_components(self, dataset):
        """The true number for synthetic data, that of the classes for real data."""
        if self.own:
            return self.own["n_components"]
        return catalogue.family(self.family(dataset)).n_components

    def job(self, dataset, fit):
        """What a fit job needs to know, with the way to make the data non-negative, or None."""
        method = self.fits[fit]["method"]
        nonnegative = None
        if registry.get(method).nonnegative:
            family = self.family(dataset)
            nonnegative = "as-is" if self.own else catalogue.family(family).nonnegative
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
        """How the user's files are read, and how the tables in them become sources."""
        own = self.own
        preparation = {"names": None, "join": "outer", "scale": "none"}
        return {
            "reading": {
                "paths": own["sources"],
                "samples_in_rows": own.get("samples_in_rows", False),
                "split_by": own.get("split_by"),
                "on_disk": False,
            },
            "labels": own.get("labels"),
            "preparation": {key: own.get(key, default) for key, default in preparation.items()},
        }

    def fits_table(self):
        """What every fit is and how often it runs, a row each."""
        return [
            {
                "fit": name,
                "method": fit["method"],
                "options": _in_words(fit.get("options", {})),
                "restarts": self._by_family(self.n_restarts, name),
                "chosen": self._by_family(self.n_best, name),
                "data": ", ".join(
                    family for family in self.families() if name in self.fits_on(self.shown(family))
                ),
            }
            for name, fit in self.fits.items()
        ]

    def _by_family(self, number, fit):
        others = (f"{number(fit, family)} on {family}" for family in self._by_data(fit))
        return "; ".join([str(number(fit)), *others])

    def rows(self):
        """Label and paper's row of every row of the tables: the fits, and the truth if known."""
        keys = ("label", "paper_row")
        rows = {
            name: {key: fit[key] for key in keys if key in fit} for name, fit in self.fits.items()
        }
        return {**rows, "truth": {"label": "True H (control)"}}


def _own_data_only(config):
    """The config with one fit, that on the user's own data, and without the paper's data."""
    own = config["own"]
    fit = {"method": own["method"], "label": own["name"], "options": own.get("options", {})}
    synthetic = {**config["synthetic"], "scales": []}
    return {**config, "synthetic": synthetic, "real": [], "best": 1, "fits": {"own": fit}}


def _check_numbers(where, n_restarts, n_best):
    if n_restarts < n_best:
        raise InputError(
            f"{where}restarts = {n_restarts} is less than best = {n_best}; change one of the two"
        )


def _chunks(asked):
    """What the jobs do: "0-9", "10-19" and so on; the last may have less to do."""
    number = int(asked["number"])  # 4.0 is a whole number to a schema
    size = int(asked["chunk"])
    return [f"{first}-{min(first + size, number) - 1}" for first in range(0, number, size)]


def _restarts(asked):
    return {"n_restarts": asked["restarts"], "n_best": asked["best"]}


def _covers(data, family):
    """Whether a list of names and kinds of data covers a family; no list covers all."""
    if data is None or family in data:
        return True
    kinds = {kind for word in data for kind in KINDS.get(word, ())}
    return bool(kinds) and catalogue.family(family).kind in kinds


def _in_words(options):
    return ", ".join(f"{key} = {value}" for key, value in options.items()) or "defaults"


def _rank(method):
    """Where a method stands in the tables; one that is not listed comes last."""
    return TABLE_ORDER.index(method) if method in TABLE_ORDER else len(TABLE_ORDER)

"""What a config asks for: data sets, fits, restarts and their jobs.

A family is a kind of data: the synthetic scales "small" and "large", each shown by one data set,
and the real data sets of the catalogue, each its own family; "<name>-filtered" is a real data set
after the feature test.  Beside the data set that is shown, a synthetic scale has many draws at
every sigma3; a job makes some of them, fits them and keeps the scores.  Draws called "conjecture"
are of the small data with patterns of another height.  A config with the key `own` runs one fit on
the user's own files instead, and nothing of the paper.
"""

from pathlib import Path

from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.datasets.synthetic import SCALES

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
    "sparse-nmf",
    "ionmf",
    "bayesian-kmeans",
    "bpca",
    "bpmf",
    "random",
)
"""The methods in the order of the tables; those of other packages follow."""
KINDS = {"synthetic": {"synthetic"}, "real": {"real", "filtered"}, "filtered": {"filtered"}}
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
        self.left_out = {}
        if config["skip_missing"]:
            reasons = {name: fetch.refusal(name, **self.where(name)) for name in config["real"]}
            self.left_out = {name: reason for name, reason in reasons.items() if reason}
        self.real = [name for name in config["real"] if name not in self.left_out]

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
        for name in [*self.real, *self.config.get("unverified", [])]:
            catalogue.get(name)
        for name in self.config.get("by_data", {}):
            catalogue.family(name)
        test = self.config["feature_test"]["fit"]
        if (self.filtered() or self.draw_chunks("feature_draws")) and test not in self.fits:
            raise InputError(f"feature_test.fit is {test!r}, which is not an entry of fits")
        for what, asked in self.config["draws"].items():
            _check_numbers(asked, f"draws.{what}: ")
        _check_numbers(self.config["feature_draws"], "feature_draws: ")
        if not self.families():
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
        fit = self.fits[name]
        options = fit.get("options", {})
        registry.check_options(fit["method"], options)
        for family in {*fit.get("data", []), *fit.get("by_data", {})} - {*KINDS}:
            catalogue.family(family)
        for family in ("", *self._families_apart(name)):
            _check_numbers(self.numbers(name, family))

    # data

    def where(self, real):
        """Where the files of a real data set are, and whether any version of them will do."""
        unverified = real in self.config.get("unverified", [])
        return {**{key: self.config[key] for key in ("mirror", "cache")}, "unverified": unverified}

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

    # fits

    def fits_on(self, dataset):
        """The fits that run on one data set."""
        family = self.family(dataset)
        return [name for name, fit in self.fits.items() if _covers(fit.get("data"), family)]

    def is_slow(self, fit):
        """Whether a fit takes tens of thousands of gradient steps, as ADVI does."""
        return self.fits[fit]["method"].startswith("advi")

    def numbers(self, fit, dataset=""):
        """How often a fit runs on a data set (`restarts`), how many of the runs are averaged
        (`best`), and how many of them one job makes (`chunk`); without a data set, on all that have
        no numbers of their own.
        """
        apart = self._families_apart(fit).get(self.family(dataset), {})
        asked = {**self.config, **self.fits[fit], **apart}
        return {key: asked[key] for key in ("restarts", "best", "chunk")}

    def _families_apart(self, fit):
        """The families with numbers of their own; those of the whole config are for the fits that
        set no numbers themselves.
        """
        settings = self.fits[fit]
        common = {} if {"restarts", "best"} & settings.keys() else self.config.get("by_data", {})
        return {**common, **settings.get("by_data", {})}

    def chunks(self, dataset, fit):
        """The files of one fit on one data set: each job runs a chunk of the restarts."""
        numbers = self.numbers(fit, dataset)
        chunks = _chunks(numbers["restarts"], numbers["chunk"])
        return [f"results/fits/{dataset}/{fit}/{chunk}.npz" for chunk in chunks]

    def job(self, dataset, fit):
        """What a fit job needs to know, with the way to make the data non-negative."""
        method = self.fits[fit]["method"]
        job = {"method": method, "options": self.fits[fit].get("options", {})}
        if self.own is not None:
            return {**job, "n_components": self.own["n_components"], "nonnegative": "as-is"}
        data = catalogue.family(self.family(dataset))
        nonnegative = data.nonnegative if registry.get(method).nonnegative else "as-is"
        return {**job, "n_components": data.n_components, "nonnegative": nonnegative}

    def fits_table(self):
        """What every fit is and how often it runs, a row each."""
        rows = []
        for name, fit in self.fits.items():
            options = [f"{key} = {value}" for key, value in fit.get("options", {}).items()]
            on = [family for family in self.families() if name in self.fits_on(self.shown(family))]
            restarts, chosen = (
                "; ".join(
                    f"{self.numbers(name, family)[key]}{f' on {family}' if family else ''}"
                    for family in ("", *self._families_apart(name))
                )
                for key in ("restarts", "best")
            )
            rows.append(
                {
                    "fit": name,
                    "method": fit["method"],
                    "options": ", ".join(options) or "defaults",
                    "restarts": restarts,
                    "chosen": chosen,
                    "data": ", ".join(on) or "draws only",
                }
            )
        return rows

    # draws of the synthetic data

    def fits_on_draws(self, what):
        """The fits that run on draws of one scale, or of the conjecture."""
        return [name for name, fit in self.fits.items() if what in fit.get("draws", ())]

    def draw_chunks(self, what, fit=None):
        """The draws of a scale as "first-last" of each job of a fit, or those of the small data for
        "conjecture", "advi_traces" or "feature_draws"; none if nothing runs on them.
        """
        for_fits = what in self.config["draws"]
        scale = "large" if what == "large" else "small"
        if scale not in self.scales or (for_fits and not self.fits_on_draws(what)):
            return []
        asked = self.config["draws"][what] if for_fits else self.config[what]
        number = asked["number"] if fit is None else self.fits[fit].get("n_draws", asked["number"])
        return _chunks(number, asked["chunk"])

    def draw_job(self, what, fit):
        """What a job of draws, of a scale or of the conjecture, needs to know; it runs one fit.

        A fit with `n_draws` is slow: it runs on the first so many draws, from one start each.
        """
        asked = self.config["draws"][what]
        of_scale = what in SCALES
        levels = self.config["synthetic"]["sigma3"] if of_scale else [self.table_sigma3]
        scale = what if of_scale else "small"
        slow = "n_draws" in self.fits[fit]
        return {
            "scale": scale,
            "levels": [float(sigma3) for sigma3 in levels],
            "jobs": {fit: self.job(scale, fit)},
            "height": asked.get("height"),
            **(_restarts({"restarts": 1, "best": 1}) if slow else _restarts(asked)),
        }

    def feature_draw_fits(self):
        """The fits on the draws of the feature test: all on the small data but ADVI and chance."""
        quick = [
            fit
            for fit in self.fits_on(self.shown("small"))
            if not self.is_slow(fit) and self.fits[fit]["method"] != "random"
        ]
        return list(dict.fromkeys([*quick, self.config["feature_test"]["fit"]]))

    def feature_noise_fits(self):
        """Those of them whose noise is tried in the test; the last is the one of the test."""
        asked = self.config["feature_draws"]["noise_from"]
        test = self.config["feature_test"]["fit"]
        return [fit for fit in asked if fit in self.feature_draw_fits() and fit != test] + [test]

    def feature_draw_job(self, fit):
        """What a job of them needs to know; each runs the fit of the test beside its own."""
        asked = self.config["feature_draws"]
        test = self.config["feature_test"]
        return {
            "extras": asked["extra"],
            "jobs": {name: self.job("small", name) for name in dict.fromkeys([fit, test["fit"]])},
            "noise_from": [fit] if fit in asked["noise_from"] else [],
            **_restarts(asked),
            "sigma3": self.table_sigma3,
            "fit": test["fit"],
            "level": test["level"],
        }

    # the user's own data

    def own_files(self):
        """All files of the user's own data."""
        return [path for path in (*self.own["sources"], self.own.get("labels")) if path is not None]

    def own_settings(self):
        """How the user's files are read, and how the tables in them become sources."""
        own = self.own
        preparation = {"names": None, "join": "outer", "normalize": False, "scale": "none"}
        return {
            "reading": {
                "paths": own["sources"],
                "samples_in_rows": own.get("samples_in_rows", False),
                "split_by": own.get("split_by"),
                "on_disk": False,
                "layer": own.get("layer"),
                "use_highly_variable": own.get("use_highly_variable"),
            },
            "labels": own.get("labels"),
            "preparation": {key: own.get(key, default) for key, default in preparation.items()},
        }


def _own_data_only(config):
    """The config with one fit, that on the user's own data, and without the paper's data."""
    own = config["own"]
    fit = {"method": own["method"], "label": own["name"], "options": own.get("options", {})}
    synthetic = {**config["synthetic"], "scales": []}
    return {**config, "synthetic": synthetic, "real": [], "best": 1, "fits": {"own": fit}}


def _check_numbers(asked, where=""):
    if asked["restarts"] < asked["best"]:
        raise InputError(
            f"{where}restarts = {asked['restarts']} is less than best = {asked['best']}; "
            "change one of the two"
        )


def _chunks(number, size):
    """What the jobs do: "0-9", "10-19" and so on; the last may have less to do."""
    number = int(number)  # 4.0 is a whole number to a schema
    return [f"{i}-{min(i + int(size), number) - 1}" for i in range(0, number, int(size))]


def _restarts(asked):
    return {"n_restarts": asked["restarts"], "n_best": asked["best"]}


def _covers(data, family):
    """Whether a list of names and kinds of data covers a family; no list covers all."""
    if data is None or family in data:
        return True
    kinds = set().union(*(KINDS.get(word, ()) for word in data))
    return bool(kinds) and catalogue.family(family).kind in kinds


def _rank(method):
    """Where a method stands in the tables; one that is not listed comes last."""
    return TABLE_ORDER.index(method) if method in TABLE_ORDER else len(TABLE_ORDER)

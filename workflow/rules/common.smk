"""What the config asks for, checked before anything runs, and helpers of the rules."""

import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

from snakemake.exceptions import WorkflowError

ENVIRONMENT = workflow.source_path("../envs/bjmd.yaml")
REQUIRED = re.search(r"bjmd\[\S+\]==(\S+)", Path(ENVIRONMENT).read_text())
INSTALL = f"install it with: {sys.executable} -m pip install '{REQUIRED[0]}'"

try:
    from bjmd import __version__

    if __version__ != REQUIRED[1]:
        raise WorkflowError(
            f"this workflow needs bjmd {REQUIRED[1]} in the environment that runs Snakemake, which has bjmd {__version__}; "
            f"{INSTALL}"
        )
    from bjmd.errors import InputError
    from bjmd_paper import exhibits
    from bjmd_paper.datasets import catalogue
    from bjmd_paper.frame import conda_environment, hold_lock
    from bjmd_paper.plan import Plan, validate
    from bjmd_paper.source import fingerprint
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"this workflow needs {error.name} in the environment that runs Snakemake, which does not have it; "
        f"{INSTALL}; or, in a clone, run make setup"
    )

if "conda" in map(str, workflow.deployment_settings.deployment_method):
    ENVIRONMENT = conda_environment(ENVIRONMENT, REQUIRED[0])

try:
    if workflow.is_main_process:  # jobs need not check the config again
        validate(config, workflow.source_path("../schemas/config.schema.yaml"))
    PLAN = Plan(config)
    if workflow.is_main_process:
        PLAN.check()
except InputError as error:
    raise WorkflowError(f"config: {error}")

EXHIBITS = [] if PLAN.own else exhibits.of(PLAN)
TABLES = {exhibit.name: exhibit for exhibit in EXHIBITS if exhibit.kind == "table"}
FIGURES = {exhibit.name: exhibit for exhibit in EXHIBITS if exhibit.kind == "figure"}
MADE_OF = sorted({path for exhibit in EXHIBITS for path in exhibit.made_of()})


wildcard_constraints:
    scale="small|large",
    sigma3=r"\d+\.\d+",
    real="|".join(catalogue.names()),
    table="|".join(TABLES) or "(?!)",
    figure="|".join(FIGURES) or "(?!)",
    fit="|".join(PLAN.fits),
    first=r"\d+",
    last=r"\d+",
    own=PLAN.own["name"] if PLAN.own else "(?!)",


def targets():
    """The outputs of a run: the folder of the user's own data, or the paper's tables, figures and report."""
    if PLAN.own:
        return [f"results/own/{PLAN.own['name']}"]
    files = [path for exhibit in EXHIBITS for path in exhibit.files()]
    return [*files, "results/report.html", "results/complete.txt"]


def code_of(script, *modules):
    """The fingerprint of a script and of modules that it finds by their names, so that it runs again if they change."""
    return fingerprint(workflow.source_path(f"../scripts/{script}.py"), *modules)


def code_of_fit(script, *fits):
    """The same with the methods of some fits."""
    methods = {PLAN.fits[fit]["method"] for fit in fits}
    entries = [entry for entry in entry_points(group="bjmd.methods") if entry.name in methods]
    return code_of(script, *(entry.module for entry in entries))


def own_files(wildcards):
    """All files of the user's own data; a module's prefix is not for them."""
    return [os.path.abspath(path) for path in PLAN.own_files()]


def fits_of(wildcards):
    """All restarts of all fits on one data set."""
    return [
        path
        for fit in PLAN.fits_on(wildcards.dataset)
        for path in PLAN.chunks(wildcards.dataset, fit)
    ]


def n_best_of(wildcards):
    """How many restarts of every fit on one data set are chosen."""
    dataset = wildcards.dataset
    return {fit: PLAN.numbers(fit, dataset)["best"] for fit in PLAN.fits_on(dataset)}


def truth_of(wildcards):
    """The truth behind a data set, where it is known."""
    return (
        [f"results/truth/{wildcards.dataset}.npz"]
        if PLAN.family(wildcards.dataset) in PLAN.scales
        else []
    )


def doubling(amount):
    """A resource of a cluster job that doubles at every attempt."""
    return lambda wildcards, attempt: amount * 2 ** (attempt - 1)


def fit_minutes(wildcards, attempt):
    """The time limit of a fit; two restarts of ADVI took up to five hours, everything else less than one."""
    return (480 if PLAN.is_slow(wildcards.fit) else 120) * 2 ** (attempt - 1)

"""What the config asks for, checked before anything runs, and helpers of the rules."""

from snakemake.exceptions import WorkflowError

from bjmd.errors import InputError
from bjmd_paper import exhibits
from bjmd_paper.datasets import catalogue
from bjmd_paper.frame import hold_lock
from bjmd_paper.plan import Plan, validate

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
    return [*(path for exhibit in EXHIBITS for path in exhibit.files()), "results/report.html"]


def fits_of(wildcards):
    """All restarts of all fits on one data set."""
    return [
        path
        for fit in PLAN.fits_on(wildcards.dataset)
        for path in PLAN.chunks(wildcards.dataset, fit)
    ]


def n_best_of(wildcards):
    """How many restarts of every fit on one data set are chosen."""
    family = PLAN.family(wildcards.dataset)
    return {fit: PLAN.n_best(fit, family) for fit in PLAN.fits_on(wildcards.dataset)}


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

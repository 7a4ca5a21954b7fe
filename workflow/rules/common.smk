"""What the config asks for: its validation, and the names of data sets, fits and targets that follow from it."""

from pathlib import Path

from snakemake.exceptions import WorkflowError

from bjmd.errors import InputError
from bjmd.workflow import Plan

try:
    PLAN = Plan(config, Path(workflow.basedir) / "workflow/schemas/config.schema.yaml")
except InputError as error:
    raise WorkflowError(f"config: {error}")


wildcard_constraints:
    scale="small|large",
    sigma3=r"\d+\.\d+",
    fit="[a-z0-9-]+",
    first=r"\d+",
    last=r"\d+",


def fit_chunks(wildcards):
    """All restarts of all fits of one data set."""
    return [
        f"results/fits/{wildcards.dataset}/{fit}/{first}-{last}.npz"
        for fit in PLAN.fits_on(wildcards.dataset)
        for first, last in PLAN.chunks(fit)
    ]


def sweep_scores(wildcards):
    """The scores at every noise level of one scale."""
    return [f"results/scores/{dataset}.csv" for dataset in PLAN.sweep(wildcards.scale)]


def tables():
    return [f"results/tables/performance-{scale}.csv" for scale in PLAN.scales]


def figures():
    return [
        f"results/figures/{kind}-{scale}.svg"
        for kind in ("noise", "objective", "auc")
        for scale in PLAN.scales
    ]

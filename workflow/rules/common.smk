"""What the config asks for, checked before anything runs, and what a job on a cluster node needs."""

import os

from snakemake.exceptions import WorkflowError

from bjmd.errors import InputError
from bjmd_paper import exhibits, resources
from bjmd_paper.datasets import catalogue
from bjmd_paper.frame import hold_lock
from bjmd_paper.plan import Plan

try:
    PLAN = Plan(config, workflow.source_path("../schemas/config.schema.yaml"), workflow.configfiles)
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


def say(message):
    """A message hides the files and resources of a job from a dry run, and `make plan` needs to see them."""
    return None if "BJMD_PLAN" in os.environ else message


def targets():
    """What a run is for: the folder of the user's own data, or else the paper's tables, figures and report."""
    if PLAN.own:
        return [f"results/own/{PLAN.own['name']}"]
    return [*(path for exhibit in EXHIBITS for path in exhibit.files()), "results/report.html"]


def fits_of(wildcards):
    """All restarts of all fits on one data set."""
    return [path for fit in PLAN.fits_on(wildcards.dataset) for path in PLAN.chunks(wildcards.dataset, fit)]


def truth_of(wildcards):
    """The truth behind a data set, where it is known."""
    return [f"results/truth/{wildcards.dataset}.npz"] if PLAN.family(wildcards.dataset) in PLAN.scales else []


def on_a_node(need):
    """What a job asks of a cluster, from need(wildcards, input): twice as much at every attempt.

    A cluster is asked for more time than expected; the expected seconds are there for `make plan`.
    """
    return {
        "mem_mb": lambda wildcards, input, attempt: need(wildcards, input).mem_mb(attempt),
        "runtime": lambda wildcards, input, attempt: need(wildcards, input).runtime(attempt),
        "expected_s": lambda wildcards, input: round(need(wildcards, input).seconds),
    }


def shape_of(path, dataset):
    """The shape of a data set as it is, or before it is there, as it is expected to be."""

    def expected():
        return (
            resources.shape_of_files(PLAN.own_files()) if PLAN.own else resources.expected_shape(PLAN.family(dataset))
        )

    return resources.shape(path, expected)


def number_of(wildcards):
    """How many restarts or draws a job takes on."""
    return int(wildcards.last) - int(wildcards.first) + 1


def fit_job(wildcards, input):
    """The chunk of restarts that a fit job runs."""
    job = PLAN.job(wildcards.dataset, wildcards.fit)
    return {
        **{key: job[key] for key in ("method", "options", "n_components")},
        "shape": shape_of(input.data, wildcards.dataset),
        "n_restarts": number_of(wildcards),
    }


def fit_threads(wildcards, input):
    return resources.fit_threads(**fit_job(wildcards, input))


def fit_need(wildcards, input):
    return resources.fit(**fit_job(wildcards, input), n_threads=fit_threads(wildcards, input))


def draw_need(wildcards, input):
    return resources.draw(wildcards.scale, number_of(wildcards), **PLAN.draw_job(wildcards.scale))


def advi_trace_need(wildcards, input):
    return resources.advi_trace(number_of(wildcards), config["advi_traces"]["max_iterations"])


def feature_draw_need(wildcards, input):
    job = PLAN.feature_draw_job()
    asked = {key: job[key] for key in ("extras", "jobs", "n_restarts")}
    return resources.feature_draw(number_of(wildcards), **asked)


def own_files_need(wildcards, input):
    return resources.read(resources.shape_of_files(PLAN.own_files()))


def own_outputs_need(wildcards, input):
    shape = shape_of(input.data, f"own-{wildcards.own}")
    return resources.look(shape, PLAN.own["n_components"], PLAN.n_restarts("own"))

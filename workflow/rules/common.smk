"""What the config asks for: its validation, and the files that follow from it."""

from pathlib import Path

from snakemake.exceptions import WorkflowError

from bjmd.paper.datasets import catalogue
from bjmd.errors import InputError
from bjmd.paper.plan import Plan

try:
    PLAN = Plan(config, Path(workflow.basedir) / "workflow/schemas/config.schema.yaml")
except InputError as error:
    raise WorkflowError(f"config: {error}")


wildcard_constraints:
    scale="small|large",
    sigma3=r"\d+\.\d+",
    real="|".join(catalogue.names()),
    family="|".join(
        [
            "small",
            "large",
            *catalogue.names(),
            *(f"{name}-filtered" for name in catalogue.names()),
        ]
    ),
    fit="[a-z0-9-]+",
    first=r"\d+",
    last=r"\d+",
    own=PLAN.own["name"] if PLAN.own else "(?!)",


def chunks_of(dataset, fit):
    return [f"results/fits/{dataset}/{fit}/{first}-{last}.npz" for first, last in PLAN.chunks(fit)]


def fit_chunks(wildcards):
    """All restarts of all fits of one data set."""
    return [path for fit in PLAN.fits_on(wildcards.dataset) for path in chunks_of(wildcards.dataset, fit)]


def truth(wildcards):
    """The truth behind a data set, where there is one."""
    synthetic = PLAN.family(wildcards.dataset) in PLAN.scales
    return [f"results/data/{wildcards.dataset}.truth.npz"] if synthetic else []


def shown_data(wildcards):
    return f"results/data/{PLAN.shown(wildcards.family)}.npz"


def shown_truth(wildcards):
    return f"results/data/{PLAN.shown(wildcards.family)}.truth.npz"


def shown_scores(wildcards):
    return f"results/scores/{PLAN.shown(wildcards.family)}.csv"


def shown_traces(wildcards):
    return f"results/scores/{PLAN.shown(wildcards.family)}.traces.csv"


def advi_chunks(wildcards):
    """The restarts of the first fit by ADVI on the data that a family shows."""
    dataset = PLAN.shown(wildcards.family)
    return next(chunks_of(dataset, fit) for fit in PLAN.fits_on(dataset) if PLAN.method(fit) == "advi-bjmd")


def sweep_scores(wildcards):
    """The scores at every noise level of one scale."""
    return [f"results/scores/{dataset}.csv" for dataset in PLAN.sweep(wildcards.scale)]


def real_scores(wildcards):
    """The scores of all real data sets of the run, filtered ones too."""
    return [f"results/scores/{family}.csv" for family in PLAN.families() if family not in PLAN.scales]


def tables():
    return (
        [f"results/tables/performance-{family}.csv" for family in PLAN.families()]
        + ["results/tables/data.csv"]
        + [f"results/tables/card-{real}.md" for real in PLAN.real]
        + [f"results/tables/selection-{real}.csv" for real in PLAN.filtered()]
        + (["results/tables/noise-levels.csv"] if PLAN.real else [])
        + ["results/tables/verdicts.csv", "results/tables/provenance.md"]
    )


def figures():
    with_advi = [
        family
        for family in PLAN.families()
        if any(PLAN.method(fit) == "advi-bjmd" for fit in PLAN.fits_on(PLAN.shown(family)))
    ]
    names = (
        ["graphical-models"]
        + [f"{kind}-{scale}" for kind in ("noise", "auc") for scale in PLAN.scales]
        + [f"objective-{family}" for family in PLAN.families()]
        + [f"convergence-{family}" for family in with_advi]
        + [f"data-{real}" for real in PLAN.real]
        + [f"selection-{real}" for real in PLAN.filtered()]
    )
    return [f"results/figures/{name}.svg" for name in names]


def targets():
    """What a run is for: the folder of one's own data, or else the tables, figures and report of the paper."""
    return [f"results/own/{PLAN.own['name']}"] if PLAN.own else [*tables(), *figures(), "results/report.html"]


def report_sections():
    """The report from top to bottom: section -> (file, caption in workflow/report, wildcards of the caption)."""

    def table(name, caption, **wildcards):
        return f"results/tables/{name}.html", caption, wildcards

    def figure(name, caption, **wildcards):
        return f"results/figures/{name}.png", caption, wildcards

    drawn = {Path(path).stem for path in figures()}
    data, performance, noise, convergence, selection = [table("data", "data_table")], [], [], [], []
    for real in PLAN.real:
        data += [table(f"card-{real}", "card", real=real), figure(f"data-{real}", "data", real=real)]
    for family in PLAN.families():
        performance.append(table(f"performance-{family}", "performance", family=family))
        if family in PLAN.scales:
            performance.append(figure(f"auc-{family}", "auc", scale=family))
            noise.append(figure(f"noise-{family}", "noise", family=family))
        convergence.append(figure(f"objective-{family}", "objective", family=family))
        if f"convergence-{family}" in drawn:
            convergence.append(figure(f"convergence-{family}", "convergence", family=family))
    if PLAN.real:
        noise.append(table("noise-levels", "noise_levels"))
    for real in PLAN.filtered():
        selection.append(figure(f"selection-{real}", "selection", real=real))
    sections = {
        "What was run": [table("provenance", "provenance")],
        "The paper's claims": [table("verdicts", "verdicts")],
        "The model": [figure("graphical-models", "graphical_models")],
        "Data": data,
        "Performance": performance,
        "Noise": noise,
        "Convergence": convergence,
        "Feature selection": selection,
    }
    return {title: exhibits for title, exhibits in sections.items() if exhibits}


def own_files(wildcards):
    """The files of one's own data, so that a change of any of them is noticed."""
    return PLAN.own_files()


def own_chunks(wildcards):
    return chunks_of(f"own-{wildcards.own}", "own")

rule performance_table:
    input:
        scores=shown_scores,
        printed=workflow.source_path("../resources/printed.csv"),
    output:
        csv="results/tables/performance-{family}.csv",
        markdown="results/tables/performance-{family}.md",
        latex="results/tables/performance-{family}.tex",
        html=report(
            "results/tables/performance-{family}.html",
            caption="../report/performance.rst",
            category="Performance",
            labels={"data": "{family}", "what": "table"},
        ),
    log:
        "results/logs/performance-{family}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        rows=PLAN.rows(),
        table="{family}",
    script:
        "../scripts/performance_table.py"


rule data_table:
    input:
        [f"results/data/{PLAN.shown(family)}.npz" for family in PLAN.families()],
    output:
        csv="results/tables/data.csv",
        markdown="results/tables/data.md",
        latex="results/tables/data.tex",
        html=report(
            "results/tables/data.html",
            caption="../report/data_table.rst",
            category="Data",
            labels={"data": "all", "what": "summary"},
        ),
    log:
        "results/logs/data-table.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        families=PLAN.families(),
    script:
        "../scripts/data_table.py"


rule noise_figure:
    input:
        data=shown_data,
        truth=shown_truth,
        scores=shown_scores,
    output:
        svg=report(
            "results/figures/noise-{family}.svg",
            caption="../report/noise.rst",
            category="Noise",
            labels={"data": "{family}", "what": "true noise and estimated densities"},
        ),
        png="results/figures/noise-{family}.png",
    log:
        "results/logs/noise-{family}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(look_need),
    params:
        fits=PLAN.fits,
    script:
        "../scripts/noise_figure.py"


rule objective_figure:
    input:
        traces=shown_traces,
    output:
        svg=report(
            "results/figures/objective-{family}.svg",
            caption="../report/objective.rst",
            category="Convergence",
            labels={"data": "{family}", "what": "objective against iteration"},
        ),
        png="results/figures/objective-{family}.png",
    log:
        "results/logs/objective-{family}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        fits=PLAN.fits,
    script:
        "../scripts/objective_figure.py"


rule convergence_figure:
    input:
        data=shown_data,
        advi=advi_chunks,
    output:
        svg=report(
            "results/figures/convergence-{family}.svg",
            caption="../report/convergence.rst",
            category="Convergence",
            labels={"data": "{family}", "what": "ADVI and the closed form"},
        ),
        png="results/figures/convergence-{family}.png",
    log:
        "results/logs/convergence-{family}.log",
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(convergence_need),
    params:
        seed=config["seed"],
        n_components=lambda wildcards: PLAN.n_components(PLAN.shown(wildcards.family)),
    script:
        "../scripts/convergence_figure.py"


rule auc_figure:
    input:
        scores=sweep_scores,
    output:
        csv="results/tables/auc-{scale}.csv",
        svg=report(
            "results/figures/auc-{scale}.svg",
            caption="../report/auc.rst",
            category="Performance",
            labels={"data": "{scale}", "what": "AUC against sigma3"},
        ),
        png="results/figures/auc-{scale}.png",
    log:
        "results/logs/auc-{scale}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        fits=PLAN.fits,
    script:
        "../scripts/auc_figure.py"


rule noise_table:
    input:
        scores=real_scores,
        printed=workflow.source_path("../resources/printed_noise.csv"),
    output:
        csv="results/tables/noise-levels.csv",
        markdown="results/tables/noise-levels.md",
        latex="results/tables/noise-levels.tex",
        html=report(
            "results/tables/noise-levels.html",
            caption="../report/noise_levels.rst",
            category="Noise",
            labels={"data": "real data", "what": "noise levels"},
        ),
    log:
        "results/logs/noise-levels.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        rows=PLAN.rows(),
    script:
        "../scripts/noise_table.py"


rule verdicts:
    input:
        scores=[f"results/scores/{PLAN.shown(family)}.csv" for family in PLAN.families()],
        sweeps=[f"results/tables/auc-{scale}.csv" for scale in PLAN.scales],
        printed=workflow.source_path("../resources/printed.csv"),
    output:
        csv="results/tables/verdicts.csv",
        markdown="results/tables/verdicts.md",
        latex="results/tables/verdicts.tex",
        html=report(
            "results/tables/verdicts.html",
            caption="../report/verdicts.rst",
            category="Verdicts",
            labels={"data": "all", "what": "the paper's claims"},
        ),
    log:
        "results/logs/verdicts.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        families=PLAN.families(),
    script:
        "../scripts/verdicts.py"


rule graphical_models:
    output:
        svg=report(
            "results/figures/graphical-models.svg",
            caption="../report/graphical_models.rst",
            category="Model",
            labels={"data": "all", "what": "graphical models"},
        ),
        png="results/figures/graphical-models.png",
    log:
        "results/logs/graphical-models.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    script:
        "../scripts/graphical_models.py"


rule provenance:
    input:
        [f"results/scores/{dataset}.csv" for dataset in PLAN.datasets()],
    output:
        markdown="results/tables/provenance.md",
        html=report(
            "results/tables/provenance.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"data": "all", "what": "versions, settings, times"},
        ),
    log:
        "results/logs/provenance.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        families={dataset: PLAN.family(dataset) for dataset in PLAN.datasets()},
        benchmarks=[
            path.replace("results/fits", "results/benchmarks/fit").replace(".npz", ".tsv")
            for dataset in PLAN.datasets()
            for fit in PLAN.fits_on(dataset)
            for path in chunks_of(dataset, fit)
        ],
        settings={"seed": config["seed"]},
        fits=PLAN.fits_table(),
    script:
        "../scripts/provenance.py"


rule report:
    input:
        [path for exhibits in report_sections().values() for path, _, _ in exhibits],
        captions=sorted(str(path) for path in Path(workflow.basedir).glob("workflow/report/*.rst")),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        sections=report_sections(),
        left_out=PLAN.left_out,
    script:
        "../scripts/report.py"


# The run that is kept in the repository: `snakemake reference` after a run.  Pictures of real data stay out: the data are not
# ours to pass on.
rule reference:
    input:
        tables(),
        [path.replace(".csv", ".md") for path in tables() if "selection" not in path],
        [path.replace(".svg", ".png") for path in figures() if "figures/data-" not in path],
    output:
        directory("results/reference"),
    log:
        "results/logs/reference.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    script:
        "../scripts/reference.py"

rule performance_table:
    input:
        scores=lambda wildcards: f"results/scores/{PLAN.table_dataset(wildcards.scale)}.csv",
        printed=workflow.source_path("../resources/printed.csv"),
    output:
        csv="results/tables/performance-{scale}.csv",
        markdown="results/tables/performance-{scale}.md",
        latex="results/tables/performance-{scale}.tex",
        html=report(
            "results/tables/performance-{scale}.html",
            caption="../report/performance.rst",
            category="Performance",
            labels={"scale": "{scale}", "what": "table, sigma3 = table_sigma3"},
        ),
    log:
        "results/logs/performance-{scale}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fits=config["fits"],
        table="{scale}",
    script:
        "../scripts/performance_table.py"


rule noise_figure:
    input:
        data=lambda wildcards: f"results/data/{PLAN.table_dataset(wildcards.scale)}.npz",
        truth=lambda wildcards: f"results/data/{PLAN.table_dataset(wildcards.scale)}.truth.npz",
        scores=lambda wildcards: f"results/scores/{PLAN.table_dataset(wildcards.scale)}.csv",
    output:
        svg=report(
            "results/figures/noise-{scale}.svg",
            caption="../report/noise.rst",
            category="Noise",
            labels={"scale": "{scale}", "what": "true noise and estimated densities"},
        ),
        png="results/figures/noise-{scale}.png",
    log:
        "results/logs/noise-{scale}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fits=config["fits"],
    script:
        "../scripts/noise_figure.py"


rule objective_figure:
    input:
        traces=lambda wildcards: f"results/scores/{PLAN.table_dataset(wildcards.scale)}.traces.csv",
    output:
        svg=report(
            "results/figures/objective-{scale}.svg",
            caption="../report/objective.rst",
            category="Convergence",
            labels={"scale": "{scale}", "what": "objective against iteration"},
        ),
        png="results/figures/objective-{scale}.png",
    log:
        "results/logs/objective-{scale}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fits=config["fits"],
    script:
        "../scripts/objective_figure.py"


rule auc_figure:
    input:
        scores=sweep_scores,
    output:
        csv="results/tables/auc-{scale}.csv",
        svg=report(
            "results/figures/auc-{scale}.svg",
            caption="../report/auc.rst",
            category="Performance",
            labels={"scale": "{scale}", "what": "AUC against sigma3"},
        ),
        png="results/figures/auc-{scale}.png",
    log:
        "results/logs/auc-{scale}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fits=config["fits"],
    script:
        "../scripts/auc_figure.py"

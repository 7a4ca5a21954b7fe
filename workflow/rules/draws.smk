# Many draws of the synthetic data, from which the verdicts come.  A job makes its draws, fits them and keeps the scores.


rule draw:
    output:
        "results/draws/{scale}/{first}-{last}.csv",
    log:
        "results/logs/draw/{scale}/{first}-{last}.log",
    benchmark:
        "results/benchmarks/draw/{scale}/{first}-{last}.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(120),
    params:
        job=lambda wildcards: PLAN.draw_job(wildcards.scale),
        seed=config["seed"],
    message:
        "Draws {wildcards.first} to {wildcards.last} of the {wildcards.scale} data: every fit at every sigma3."
    script:
        "../scripts/draw.py"


rule advi_trace:
    output:
        "results/advi-traces/{first}-{last}.csv",
    log:
        "results/logs/advi-trace/{first}-{last}.log",
    benchmark:
        "results/benchmarks/advi-trace/{first}-{last}.tsv"
    priority: 2  # first, so that C++ and numba compile at the same time, each once
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        sigma3=PLAN.table_sigma3,
        max_iterations=config["advi_traces"]["max_iterations"],
        seed=config["seed"],
    message:
        "ADVI on draws {wildcards.first} to {wildcards.last} of the small data, without a stopping rule."
    script:
        "../scripts/advi_trace.py"


rule feature_draw:
    output:
        passed="results/feature-draws/{first}-{last}.csv",
        auc="results/feature-draws/{first}-{last}.auc.csv",
    log:
        "results/logs/feature-draw/{first}-{last}.log",
    benchmark:
        "results/benchmarks/feature-draw/{first}-{last}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(120),
    params:
        job=lambda wildcards: PLAN.feature_draw_job(),
        seed=config["seed"],
    message:
        "The feature test on draws {wildcards.first} to {wildcards.last} of the small data plus pure noise."
    script:
        "../scripts/feature_draw.py"

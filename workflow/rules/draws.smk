# Many draws of the synthetic data, from which the verdicts come.  A job makes its draws, runs one fit on them and keeps the
# scores.


rule draw:
    output:
        "results/draws/{scale}/{fit}/{first}-{last}.csv",
    log:
        "results/logs/draw/{scale}/{fit}/{first}-{last}.log",
    benchmark:
        "results/benchmarks/draw/{scale}/{fit}/{first}-{last}.tsv"
    wildcard_constraints:
        scale="small|large|conjecture",
    priority: 1
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(120),
    params:
        job=lambda wildcards: PLAN.draw_job(wildcards.scale, wildcards.fit),
        seed=config["seed"],
        code=lambda wildcards: code_of_fit("draw", wildcards.fit),
    message:
        "Fitting {wildcards.fit} to draws {wildcards.first} to {wildcards.last} ({wildcards.scale})."
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
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        sigma3=PLAN.table_sigma3,
        max_iterations=config["advi_traces"]["max_iterations"],
        seed=config["seed"],
        code=lambda wildcards: code_of("advi_trace", "bjmd_paper.baselines.advi"),
    message:
        "ADVI on draws {wildcards.first} to {wildcards.last} of the small data, without a stopping rule."
    script:
        "../scripts/advi_trace.py"


rule feature_draw:
    output:
        passed="results/feature-draws/{fit}/{first}-{last}.csv",
        auc="results/feature-draws/{fit}/{first}-{last}.auc.csv",
    log:
        "results/logs/feature-draw/{fit}/{first}-{last}.log",
    benchmark:
        "results/benchmarks/feature-draw/{fit}/{first}-{last}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(120),
    params:
        job=lambda wildcards: PLAN.feature_draw_job(wildcards.fit),
        seed=config["seed"],
        code=lambda wildcards: code_of_fit(
            "feature_draw", wildcards.fit, config["feature_test"]["fit"]
        ),
    message:
        "Fitting {wildcards.fit} before and after the feature test to draws {wildcards.first} to {wildcards.last} of the small data plus pure noise."
    script:
        "../scripts/feature_draw.py"

# A run on your own data (the key `own` of the config); the rule fit runs the restarts.


rule own_data:
    input:
        own_files,
    output:
        data="results/data/own-{own}.npz",
        settings="results/data/own-{own}.json",
    log:
        "results/logs/own-data/{own}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=doubling(8000),
        runtime=doubling(60),
    params:
        own=lambda wildcards: PLAN.own_settings(),
        code=lambda wildcards: code_of("own_data"),
    script:
        "../scripts/own_data.py"


rule own_outputs:
    input:
        own_files,
        data="results/data/own-{own}.npz",
        settings="results/data/own-{own}.json",
        fits=lambda wildcards: PLAN.chunks(f"own-{wildcards.own}", "own"),
    output:
        directory("results/own/{own}"),
    log:
        "results/logs/own-outputs/{own}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=doubling(8000),
        runtime=doubling(60),
    params:
        own=lambda wildcards: PLAN.own_settings(),
        code=lambda wildcards: code_of("own_outputs"),
    message:
        "Tables, figures and report: {output}."
    script:
        "../scripts/own_outputs.py"

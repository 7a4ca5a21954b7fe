# A run on one's own data (the key `own` of the config).  The restarts themselves are run by the rule fit.


rule own_data:
    input:
        own_files,
    output:
        data="results/data/own-{own}.npz",
        settings="results/data/own-{own}.json",
    log:
        "results/logs/own-data/{own}.log",
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(own_files_need),
    params:
        files=lambda wildcards: PLAN.own_reading(),
        preparation=lambda wildcards: PLAN.own_preparation(),
    script:
        "../scripts/own_data.py"


rule own_outputs:
    input:
        own_files,
        data="results/data/own-{own}.npz",
        settings="results/data/own-{own}.json",
        fits=own_chunks,
    output:
        directory("results/own/{own}"),
    log:
        "results/logs/own-outputs/{own}.log",
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(own_outputs_need),
    params:
        files=lambda wildcards: PLAN.own_reading(),
    script:
        "../scripts/own_outputs.py"

rule fit:
    input:
        data="results/data/{dataset}.npz",
    output:
        "results/fits/{dataset}/{fit}/{first}-{last}.npz",
    log:
        "results/logs/fit/{dataset}/{fit}/{first}-{last}.log",
    benchmark:
        "results/benchmarks/fit/{dataset}/{fit}/{first}-{last}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=doubling(4000),
        runtime=fit_minutes,
    params:
        job=lambda wildcards: PLAN.job(wildcards.dataset, wildcards.fit),
        seed=config["seed"],
    message:
        "Fitting {wildcards.fit} to {wildcards.dataset}, restarts {wildcards.first} to {wildcards.last}."
    script:
        "../scripts/fit.py"


rule score:
    input:
        data="results/data/{dataset}.npz",
        fits=fits_of,
        truth=truth_of,
    output:
        runs="results/scores/{dataset}.csv",
        traces="results/scores/{dataset}.traces.csv",
    log:
        "results/logs/score/{dataset}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        best=n_best_of,
    script:
        "../scripts/score.py"


rule shares:
    input:
        data="results/data/{dataset}.npz",
        truth="results/truth/{dataset}.csv",
        fits=fits_of,
    output:
        "results/shares/{dataset}.csv",
    log:
        "results/logs/shares/{dataset}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        best=n_best_of,
    script:
        "../scripts/shares.py"

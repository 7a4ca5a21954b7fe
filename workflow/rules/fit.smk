# A fit that fails writes the reason in place of its results; the scores and all that is made of them leave it out.


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
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=doubling(4000),
        runtime=fit_minutes,
    params:
        job=lambda wildcards: PLAN.job(wildcards.dataset, wildcards.fit),
        seed=config["seed"],
        code=lambda wildcards: code_of_fit("fit", wildcards.fit),
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
        failures="results/scores/{dataset}.failures.txt",
    log:
        "results/logs/score/{dataset}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        best=n_best_of,
        code=lambda wildcards: code_of("score"),
    script:
        "../scripts/score.py"


rule shares:
    input:
        data="results/data/{dataset}.npz",
        fits=fits_of,
    output:
        "results/shares/{dataset}.csv",
    log:
        "results/logs/shares/{dataset}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        best=n_best_of,
        where=lambda wildcards: PLAN.where(wildcards.dataset),
        code=lambda wildcards: code_of("shares", catalogue.get(wildcards.dataset).module),
    script:
        "../scripts/shares.py"

rule score:
    input:
        data="results/data/{dataset}.npz",
        fits=fit_chunks,
    output:
        runs="results/scores/{dataset}.csv",
        traces="results/scores/{dataset}.traces.csv",
    log:
        "results/logs/score/{dataset}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fits=lambda wildcards: PLAN.fits_on(wildcards.dataset),
        best=config["best"],
    script:
        "../scripts/score.py"

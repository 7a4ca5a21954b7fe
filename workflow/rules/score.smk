rule score:
    input:
        data="results/data/{dataset}.npz",
        fits=fit_chunks,
        truth=truth,
    output:
        runs="results/scores/{dataset}.csv",
        traces="results/scores/{dataset}.traces.csv",
    log:
        "results/logs/score/{dataset}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(score_need),
    params:
        best=lambda wildcards: {fit: PLAN.n_best(fit) for fit in PLAN.fits_on(wildcards.dataset)},
    script:
        "../scripts/score.py"

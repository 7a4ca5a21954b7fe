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
    threads: fit_threads
    resources:
        **on_a_node(fit_need),
    params:
        method=lambda wildcards: PLAN.method(wildcards.fit),
        options=lambda wildcards: PLAN.options(wildcards.fit),
        n_components=lambda wildcards: PLAN.n_components(wildcards.dataset),
        nonnegative=lambda wildcards: PLAN.nonnegative(wildcards.dataset, wildcards.fit),
        seed=config["seed"],
    script:
        "../scripts/fit.py"

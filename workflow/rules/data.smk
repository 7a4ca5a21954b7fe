rule synthetic:
    output:
        data="results/data/{scale}-{sigma3}.npz",
        truth="results/truth/{scale}-{sigma3}.npz",
    log:
        "results/logs/synthetic/{scale}-{sigma3}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        seed=config["seed"],
        code=lambda wildcards: code_of("synthetic"),
    script:
        "../scripts/synthetic.py"


# Only the real data, on a machine with a network:
# snakemake downloads --cores 1 --keep-going --configfile config/paper.yaml
rule downloads:
    input:
        [f"results/data/{name}.npz" for name in PLAN.real],
    localrule: True


rule prepare:
    output:
        data="results/data/{real}.npz",
        files="results/data/{real}.files.csv",
    log:
        "results/logs/prepare/{real}.log",
    retries: 0  # downloads are tried again anyway
    localrule: True
    conda:
        ENVIRONMENT
    params:
        where=lambda wildcards: PLAN.where(wildcards.real),
        code=lambda wildcards: code_of("prepare", catalogue.get(wildcards.real).module),
    message:
        "Finding, checking and reading {wildcards.real}; a download may take a while."
    script:
        "../scripts/prepare.py"


rule feature_test:
    input:
        data="results/data/{real}.npz",
        # and not the scores, which change with every fit on the data
        fits=lambda wildcards: PLAN.chunks(wildcards.real, config["feature_test"]["fit"]),
    output:
        data="results/data/{real}-filtered.npz",
        table="results/tables/feature-test-{real}.csv",
    log:
        "results/logs/feature-test/{real}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        **config["feature_test"],
        best=lambda wildcards: PLAN.numbers(config["feature_test"]["fit"], wildcards.real)["best"],
        code=lambda wildcards: code_of("feature_test"),
    script:
        "../scripts/feature_test.py"

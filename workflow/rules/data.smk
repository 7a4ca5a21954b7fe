rule synthetic:
    output:
        data="results/data/{scale}-{sigma3}.npz",
        truth="results/truth/{scale}-{sigma3}.npz",
    log:
        "results/logs/synthetic/{scale}-{sigma3}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        seed=config["seed"],
    script:
        "../scripts/synthetic.py"


# Only the real data, on a machine with a network:
# snakemake downloads --cores 1 --keep-going --configfile config/paper.yaml
rule downloads:
    input:
        [f"results/data/{name}.npz" for name in PLAN.real],


rule prepare:
    output:
        "results/data/{real}.npz",
    log:
        "results/logs/prepare/{real}.log",
    retries: 0  # downloads are tried again anyway
    conda:
        "../../envs/environment.yaml"
    params:
        mirror=config["mirror"],
        cache=config["cache"],
    message:
        "Finding, checking and reading {wildcards.real}; a download may take a while."
    script:
        "../scripts/prepare.py"


rule known_shares:
    output:
        "results/truth/{real}.csv",
    log:
        "results/logs/known-shares/{real}.log",
    retries: 0
    conda:
        "../../envs/environment.yaml"
    params:
        mirror=config["mirror"],
        cache=config["cache"],
    script:
        "../scripts/known_shares.py"


rule feature_test:
    input:
        data="results/data/{real}.npz",
        scores="results/scores/{real}.csv",
    output:
        data="results/data/{real}-filtered.npz",
        table="results/tables/feature-test-{real}.csv",
    log:
        "results/logs/feature-test/{real}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        **config["feature_test"],
    script:
        "../scripts/feature_test.py"

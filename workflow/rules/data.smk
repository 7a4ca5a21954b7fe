rule synthetic:
    output:
        data="results/data/{scale}-{sigma3}.npz",
        truth="results/data/{scale}-{sigma3}.truth.npz",
    log:
        "results/logs/synthetic/{scale}-{sigma3}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(look_need),
    params:
        seed=config["seed"],
    script:
        "../scripts/synthetic.py"


# Only the downloads, for a machine with network: `snakemake downloads --keep-going --configfile config/paper.yaml`.
rule downloads:
    input:
        [f"results/data/{name}.found.txt" for name in PLAN.real],
    localrule: True


# The download itself goes to the mirror or the cache, which outlive results/; here stays where it was found.
rule download:
    output:
        "results/data/{real}.found.txt",
    log:
        "results/logs/download/{real}.log",
    retries: 0  # fetch tries again by itself
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(table_need),
    params:
        mirror=config["mirror"],
        cache=config["cache"],
    script:
        "../scripts/download.py"


rule unpack:
    input:
        "results/data/{real}.found.txt",
    output:
        temp(directory("results/data/{real}.files")),
    log:
        "results/logs/unpack/{real}.log",
    group:
        "prepare-{real}"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(preparation_need),
    script:
        "../scripts/unpack.py"


rule prepare:
    input:
        "results/data/{real}.files",
    output:
        ensure("results/data/{real}.npz", non_empty=True),
    log:
        "results/logs/prepare/{real}.log",
    group:
        "prepare-{real}"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(preparation_need),
    script:
        "../scripts/prepare.py"


rule card:
    input:
        "results/data/{real}.npz",
    output:
        markdown="results/tables/card-{real}.md",
        html=report(
            "results/tables/card-{real}.html",
            caption="../report/card.rst",
            category="Data",
            labels={"data": "{real}", "what": "card"},
        ),
        svg=report(
            "results/figures/data-{real}.svg",
            caption="../report/data.rst",
            category="Data",
            labels={"data": "{real}", "what": "what the data look like"},
        ),
        png="results/figures/data-{real}.png",
    log:
        "results/logs/card/{real}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(look_need),
    script:
        "../scripts/card.py"

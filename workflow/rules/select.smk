rule select:
    input:
        data="results/data/{real}.npz",
        scores="results/scores/{real}.csv",
    output:
        data="results/data/{real}-filtered.npz",
        table="results/tables/selection-{real}.csv",
        svg=report(
            "results/figures/selection-{real}.svg",
            caption="../report/selection.rst",
            category="Feature selection",
            labels={"data": "{real}", "what": "variance against noise"},
        ),
        png="results/figures/selection-{real}.png",
    log:
        "results/logs/select/{real}.log",
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **beside_snakemake(look_need),
    params:
        fit=config["selection"]["fit"],
        level=config["selection"]["level"],
        rule=config["selection"]["rule"],
    script:
        "../scripts/select.py"

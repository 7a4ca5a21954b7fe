rule synthetic:
    output:
        data="results/data/{scale}-{sigma3}.npz",
        truth="results/data/{scale}-{sigma3}.truth.npz",
    log:
        "results/logs/synthetic/{scale}-{sigma3}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        seed=config["seed"],
    script:
        "../scripts/synthetic.py"

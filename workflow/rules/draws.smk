# Many draws of the synthetic data, on which the verdicts rest.  A job makes its draw, fits it and keeps only the scores.


rule draw:
    output:
        "results/draws/{scale}/{draw}.csv",
    log:
        "results/logs/draw/{scale}/{draw}.log",
    benchmark:
        "results/benchmarks/draw/{scale}/{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(draw_need),
    params:
        job=lambda wildcards: PLAN.draw_job(wildcards.scale),
        seed=config["seed"],
    message:
        say("Draw {wildcards.draw} of the {wildcards.scale} data: every fit at every sigma3.")
    script:
        "../scripts/draw.py"


rule advi_trace:
    output:
        "results/advi-traces/{draw}.csv",
    log:
        "results/logs/advi-trace/{draw}.log",
    benchmark:
        "results/benchmarks/advi-trace/{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(advi_trace_need),
    params:
        max_iterations=config["advi_traces"]["max_iterations"],
        seed=config["seed"],
    message:
        say("ADVI on draw {wildcards.draw} of the small data, without a stopping rule.")
    script:
        "../scripts/advi_trace.py"


rule feature_draw:
    output:
        passed="results/feature-draws/{draw}.csv",
        auc="results/feature-draws/{draw}.auc.csv",
    log:
        "results/logs/feature-draw/{draw}.log",
    benchmark:
        "results/benchmarks/feature-draw/{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        **on_a_node(feature_draw_need),
    params:
        job=PLAN.feature_draw_job() if PLAN.feature_draws() else None,
        seed=config["seed"],
    message:
        say("The feature test on draw {wildcards.draw} of the small data plus pure noise.")
    script:
        "../scripts/feature_draw.py"

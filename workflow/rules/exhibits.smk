# Every table and figure of the list in src/bjmd_paper/exhibits.toml, and the pages that show them.


rule table:
    input:
        unpack(lambda wildcards: TABLES[wildcards.table].inputs),
    output:
        csv="results/tables/{table}.csv",
        markdown="results/tables/{table}.md",
        latex="results/tables/{table}.tex",
        fragment="results/tables/{table}.fragment.html",
        html=report(
            "results/tables/{table}.html",
            caption="../report/caption.rst",
            category=lambda wildcards: TABLES[wildcards.table].section,
            labels=lambda wildcards: {"table or figure": TABLES[wildcards.table].title},
        ),
    log:
        "results/logs/tables/{table}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        function=lambda wildcards: TABLES[wildcards.table].function,
        settings=lambda wildcards: TABLES[wildcards.table].settings,
        title=lambda wildcards: TABLES[wildcards.table].title,
        caption=lambda wildcards: TABLES[wildcards.table].caption,
    message:
        "Table: {wildcards.table}."
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(lambda wildcards: FIGURES[wildcards.figure].inputs),
    output:
        svg=report(
            "results/figures/{figure}.svg",
            caption="../report/caption.rst",
            category=lambda wildcards: FIGURES[wildcards.figure].section,
            labels=lambda wildcards: {"table or figure": FIGURES[wildcards.figure].title},
        ),
        png="results/figures/{figure}.png",
    log:
        "results/logs/figures/{figure}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        function=lambda wildcards: FIGURES[wildcards.figure].function,
        settings=lambda wildcards: FIGURES[wildcards.figure].settings,
        caption=lambda wildcards: FIGURES[wildcards.figure].caption,
    message:
        "Figure: {wildcards.figure}."
    script:
        "../scripts/figure.py"


rule report:
    input:
        introduction=workflow.source_path("../report/workflow.rst"),
        parts=[exhibit.part() for exhibit in EXHIBITS],
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../envs/environment.yaml"
    params:
        exhibits=[(exhibit.section, exhibit.title, exhibit.caption) for exhibit in EXHIBITS],
        left_out=PLAN.left_out,
    message:
        "All tables and figures on one page: {output}."
    script:
        "../scripts/report.py"


# The run that is kept in the repository: `snakemake reference` after a run.
rule reference:
    input:
        [path for exhibit in EXHIBITS for path in exhibit.reference_files()],
    output:
        directory("results/reference"),
    log:
        "results/logs/reference.log",
    conda:
        "../../envs/environment.yaml"
    script:
        "../scripts/reference.py"

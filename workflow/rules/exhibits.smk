# Every table and figure of the list in src/bjmd_paper/exhibits.toml, and the pages that show them.


rule table:
    input:
        unpack(lambda wildcards: TABLES[wildcards.table].inputs),
    output:
        csv="results/tables/{table}.csv",
        markdown="results/tables/{table}.md",
        fragment="results/tables/{table}.fragment.html",
        html=report(
            "results/tables/{table}.html",
            caption="../report/caption.rst",
            category=lambda wildcards: TABLES[wildcards.table].section,
            labels=lambda wildcards: {"table or figure": TABLES[wildcards.table].title},
        ),
    log:
        "results/logs/tables/{table}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        function=lambda wildcards: TABLES[wildcards.table].function,
        settings=lambda wildcards: TABLES[wildcards.table].settings,
        optional=lambda wildcards: TABLES[wildcards.table].optional,
        title=lambda wildcards: TABLES[wildcards.table].title,
        caption=lambda wildcards: TABLES[wildcards.table].caption,
        code=lambda wildcards: code_of("table", TABLES[wildcards.table].function.partition(":")[0]),
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
    localrule: True
    conda:
        ENVIRONMENT
    params:
        function=lambda wildcards: FIGURES[wildcards.figure].function,
        settings=lambda wildcards: FIGURES[wildcards.figure].settings,
        caption=lambda wildcards: FIGURES[wildcards.figure].caption,
        code=lambda wildcards: code_of(
            "figure", FIGURES[wildcards.figure].function.partition(":")[0]
        ),
    message:
        "Figure: {wildcards.figure}."
    script:
        "../scripts/figure.py"


rule report:
    input:
        introduction=workflow.source_path("../report/workflow.rst"),
        parts=[exhibit.files()[-1] for exhibit in EXHIBITS],
        made_of=MADE_OF,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        exhibits=[(exhibit.section, exhibit.title, exhibit.caption) for exhibit in EXHIBITS],
        left_out=PLAN.left_out,
        code=lambda wildcards: code_of("report"),
    message:
        "All tables and figures on one page: {output}."
    script:
        "../scripts/report.py"


# The last job of a run: it fails if a fit did.
rule complete:
    input:
        "results/report.html",
        [path for exhibit in EXHIBITS for path in exhibit.files()],
        made_of=MADE_OF,
    output:
        "results/complete.txt",
    log:
        "results/logs/complete.log",
    retries: 0
    localrule: True
    conda:
        ENVIRONMENT
    message:
        "Has every fit succeeded?"
    script:
        "../scripts/complete.py"


# The run that is kept in the repository: `snakemake reference` after a run.
rule reference:
    input:
        [path for exhibit in EXHIBITS for path in exhibit.reference_files()],
    output:
        directory("results/reference"),
    log:
        "results/logs/reference.log",
    localrule: True
    conda:
        ENVIRONMENT
    script:
        "../scripts/reference.py"

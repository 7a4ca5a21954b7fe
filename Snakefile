from snakemake.utils import min_version

min_version("9.10")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/fit.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/select.smk"
include: "workflow/rules/render.smk"


rule all:
    default_target: True
    input:
        tables(),
        figures(),

from snakemake.utils import min_version

from bjmd.paper.frame import hold_lock

min_version("9.10")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/fit.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/select.smk"
include: "workflow/rules/render.smk"
include: "workflow/rules/own.smk"


onstart:
    hold_lock(".snakemake/bjmd.lock")


rule all:
    default_target: True
    input:
        targets(),

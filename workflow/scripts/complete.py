"""End a run with an error if a fit failed; everything else has been made by now."""

from pathlib import Path

from bjmd.errors import FitError
from bjmd_paper import failures
from bjmd_paper.frame import script

with script(snakemake):
    failed = failures.sentences(snakemake.input.made_of)
    if failed:
        raise FitError(
            f"{snakemake.input[0]} and all else is made, but some fits failed and were left out: "
            f"{'; '.join(failed)}"
        )
    Path(snakemake.output[0]).write_text("Every fit of this run succeeded.\n")

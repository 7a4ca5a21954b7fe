"""The frame of every script of the Snakemake workflow."""

import logging
import sys

from bjmd.errors import FitError, InputError


def run_script(main, snakemake):
    """Run the body of a workflow script: log to its log file, and turn a known problem into one sentence and exit 1."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", handlers=[logging.FileHandler(snakemake.log[0], mode="w")]
    )
    logging.captureWarnings(True)
    try:
        main(snakemake)
    except (InputError, FitError) as error:
        logging.error("%s", error)
        print(f"{snakemake.rule}: {error}", file=sys.stderr)
        sys.exit(1)

"""Make a table of the list of exhibits, in all its formats."""

import pandas as pd

from bjmd.errors import FitError
from bjmd_paper import cards, claims, exhibits, failures, overview, shares, tables
from bjmd_paper.frame import script

TABLES = {
    "overview": overview.table,
    "verdicts": claims.table,
    "performance": tables.performance,
    "integration": tables.integration,
    "draws": tables.draws,
    "conjecture": tables.conjecture,
    "shares": shares.table,
    "noise-levels": tables.noise_levels,
    "feature-draws": tables.feature_draws,
    "feature-draws-auc": tables.feature_draws_auc,
    "advi-traces": tables.advi_traces,
    "data": cards.summary,
    "card": cards.card,
    "provenance": tables.provenance,
}

with script(snakemake):
    params = snakemake.params
    inputs = dict(snakemake.input.items())
    failed = failures.sentences(inputs.pop("failures", []))
    try:
        table = exhibits.make(TABLES[params.function], inputs, params.settings, params.optional)
    except FitError as error:
        table = tables.Table(pd.DataFrame(), [f"There is {error}."])
    if failed:
        table.shown.append(f"Failed, and left out: {'; '.join(failed)}.")
    tables.write(table, params.title, params.caption, snakemake.output)

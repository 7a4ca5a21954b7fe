"""RNA of three lung cancer cell lines, mixed in known shares and sequenced from four amounts.

The less RNA a sample holds, the noisier its counts, so the amounts are the sources.  The shares of
the cell lines are known, which makes these real data with a true answer.

The published table of samples has an error: its columns H2228_prop and HCC827_prop are swapped.
RNA that it calls pure H2228 correlates 0.96 with genotyped single cells of HCC827, and -0.72 with
those of H2228.  `shares` undoes the swap.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources

CELL_LINES = ("H1975", "H2228", "HCC827")
COLUMNS = ("H1975_prop", "HCC827_prop", "H2228_prop")
"""The column with the share of each cell line; the last two are swapped in the published table."""
AMOUNTS = (30, 15, 7.5, 3.75)
"""Picograms of RNA in a sample, one source each."""
N_GENES = 1000


def read(folder):
    """The sources, by amount of RNA; the class of a sample is its most frequent cell line."""
    counts, samples = read_tables(folder)
    expression = most_variable(log_normalised(counts))
    by_amount = _by_amount(samples)
    true = shares(folder)
    return Sources(
        [np.ascontiguousarray(expression[names]) for names in by_amount.values()],
        names=by_amount,
        feature_names=expression.index,
        sample_names=by_amount.values(),
        labels=[dominant(true.loc[names].to_numpy().T) for names in by_amount.values()],
        class_names=CELL_LINES,
    )


def shares(folder):
    """The true share of every cell line in every sample: samples by amount x cell lines."""
    _, samples = read_tables(folder)
    order = [name for names in _by_amount(samples).values() for name in names]
    true = samples.loc[order, list(COLUMNS)].set_axis(CELL_LINES, axis=1).astype(float)
    return true.div(true.sum(axis=1), axis=0)  # 0.33 three times is a third


def log_normalised(counts):
    """log(1 + counts per 10,000 of the sample)."""
    return np.log1p(1e4 * counts / counts.sum())


def most_variable(expression):
    """The genes of the largest variance, in the order of the table."""
    top = np.argsort(-expression.to_numpy().var(axis=1), kind="stable")[:N_GENES]
    return expression.iloc[np.sort(top)]


def dominant(true_shares):
    """Whether a cell line (row) has a larger share of a sample than each of the others."""
    largest = true_shares == true_shares.max(axis=0)
    return largest & (largest.sum(axis=0) == 1)


def read_tables(folder, name="RNAmix_celseq2"):
    """Counts, genes x samples, and the table of the samples in the same order."""
    counts, samples = (
        pd.read_csv(Path(folder) / f"{name}.{part}.csv.gz", index_col=0)
        for part in ("count", "metadata")
    )
    return counts, samples.loc[counts.columns]


def _by_amount(samples):
    """Source -> the names of its samples."""
    amounts = samples["mRNA_amount"]
    return {f"{amount:g} pg": list(samples.index[amounts == amount]) for amount in AMOUNTS}

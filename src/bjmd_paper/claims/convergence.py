"""How ADVI converges on the small data."""

from dataclasses import replace

import numpy as np
import pandas as pd

from bjmd_paper.claims import statistics
from bjmd_paper.claims.rules import Claims, all_of, beats, fact, within
from bjmd_paper.claims.statistics import Effect

ELBO_FLAT = 20_000
CHANGE_FLAT = 80_000
"""Where the text says that the ELBO and the relative change of H become stable."""
FACTOR = 2
"""The paper says "around", and reads its numbers off a curve."""
TOLERANCE = 1e-4
"""Of the relative change of H, 0.01 read as per cent."""
SOURCES = (1, 2, 3)


def _elbo_flat(trace):
    return statistics.settles(trace["iteration"], trace["objective"])


def _change_flat(trace):
    return statistics.settles(
        trace["iteration"], np.log(trace["change"].clip(lower=np.finfo(float).tiny))
    )


def _stops(trace):
    """Where the rule on H stops: the first look below the tolerance, or the end."""
    below = trace["iteration"][trace["change"] < TOLERANCE]
    return float(below.iloc[0] if len(below) else trace["iteration"].iloc[-1])


def _auc(trace, iteration):
    """The AUC in every source at the last look up to an iteration."""
    rows = trace[trace["iteration"] <= iteration]
    return (
        (rows if len(rows) else trace)
        .iloc[-1 if len(rows) else 0][[f"auc_{c}" for c in SOURCES]]
        .to_numpy(float)
    )


def final_auc(evidence):
    """The AUC at the end of every trace: a row for each draw and a column for each source."""
    ends = {draw: _auc(trace, np.inf) for draw, trace in evidence.traces().items()}
    return pd.DataFrame.from_dict(ends, orient="index", columns=list(SOURCES))


def _gains(evidence, start, end=lambda trace: np.inf):
    """How much the AUC rises between two iterations that a function of the trace gives."""
    traces = evidence.traces()
    rises = {
        draw: _auc(trace, end(trace)) - _auc(trace, start(trace)) for draw, trace in traces.items()
    }
    table = pd.DataFrame.from_dict(rises, orient="index")
    return [Effect(f"source {c}", table[c - 1]) for c in SOURCES]


def _becomes_flat(evidence, where, printed):
    found = np.array([where(trace) for trace in evidence.traces().values()])
    middle = np.median(found)
    return fact(
        printed / FACTOR <= middle <= printed * FACTOR,
        f"about {printed:,}",
        f"{middle:,.0f} ({found.min():,.0f} to {found.max():,.0f})",
        f"median and range over {len(found)} draws; within a factor of {FACTOR} counts as about",
    )


def _noisier_is_worse(evidence, auc):
    printed = evidence.print_of("small", "cavi-bjmd")
    return beats(
        [
            Effect(
                f"source {c} over {c + 1}", auc[c] - auc[c + 1], float(printed[c - 1] - printed[c])
            )
            for c in SOURCES[:-1]
        ]
    )


def auc_rises_after_the_elbo(evidence):
    after = beats(_gains(evidence, _elbo_flat))
    printed = beats(_gains(evidence, lambda trace: ELBO_FLAT)).ours
    return replace(
        after, ours=f"{after.ours} once our ELBO is stable, {printed} from {ELBO_FLAT:,} on"
    )


def change_stays_above_zero(evidence):
    last = []
    slopes = []
    for trace in evidence.traces().values():
        half = trace.iloc[len(trace) // 2 :]
        last.append(trace["change"].tail(20).median())
        logs = np.log(half["change"].clip(lower=np.finfo(float).tiny))
        slopes.append(np.polyfit(half["iteration"] / 10_000, logs, 1)[0])
    falling = Effect("slope", np.array(slopes), form="{:+.3f}".format)
    low, high = falling.interval()
    return fact(
        min(last) > 0 and low <= 0 <= high,
        "",
        f"{np.median(last):.2g} at the end",
        f"slope of its logarithm over the last half, for 10,000 iterations: {falling.text()}",
    )


CLAIMS: Claims = {
    "C1": lambda evidence: _becomes_flat(evidence, _elbo_flat, ELBO_FLAT),
    "C2": lambda evidence: _becomes_flat(evidence, _change_flat, CHANGE_FLAT),
    "C3": lambda evidence: beats(_gains(evidence, lambda trace: trace["iteration"].iloc[0])),
    "C4": lambda evidence: _noisier_is_worse(evidence, evidence.at_table("small", "cavi-bjmd")),
    "C4-advi": lambda evidence: _noisier_is_worse(evidence, final_auc(evidence)),
    "C5": auc_rises_after_the_elbo,
    "C6": lambda evidence: beats(_gains(evidence, _elbo_flat, _stops)),
    "C7": change_stays_above_zero,
    "C8": lambda evidence: within(_gains(evidence, _change_flat), evidence.margins.about_the_same),
    "C10": lambda evidence: all_of(evidence, C6=CLAIMS["C6"], C7=CLAIMS["C7"]),
}

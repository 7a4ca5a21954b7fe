"""Is another option worth trying on these data?

    checked = check(sources, decomposition)
    print(checked)                               # the recommendation, or that there is none
    checked.recommended                          # {} or, for example, {"noise": "robust"}
    checked.table

Every option that the data allow is compared with the options of the fit.  A tenth of the entries is
hidden, and each option predicts them, from the start that was best in the fit.  An option that
seems to do so better is tried again with other entries hidden.
Density alone is a poor judge: on real data, structure that the model lacks looks like unequal
noise, and an option that weights it away gains density while the memberships get worse.  If the
noise really is unequal, weighting makes components and memberships more precise, so that plain
squared error, which the option does not optimise, falls as well.  An option is worth trying if

    the squared error of the hidden entries falls (t above 3),
    their log density rises by more than two standard errors,
    it predicts them better than the means of the features do (R2 above 0), and
    the memberships move by more than 0.05, or by half of what they differ from their mean.

Of several options, the one with the highest density is recommended.  docs/options.md has how often
that was right on data whose answer is known.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bjmd.analysis import held_out_entries
from bjmd.data.sources import Sources
from bjmd.data.view import NORMAL_OVER_MEDIAN
from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd.inference.noise import FACTORS, parsed
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition, match

HIDDEN = 0.1  #: share of the entries that are hidden
N_REPEATS = 2
TOL = 1e-5  #: of the fits, which need not be as good as one to keep
MOST_SWEEPS = 150
MOST_SAMPLES = 1000  #: of all sources together; more say the same and take longer
LEAST_T = 3.0
LEAST_STANDARD_ERRORS = 2.0
LEAST_MOVE = 0.05
LEAST_SHARE = 0.5  #: of the mean distance of memberships from their mean, if that is less
PROMISING_T = 1.0  #: of an option that is tried further
PROMISING_MOVE = 0.5  #: as a share of the least move
USUAL = 5.0
"""How far from the median a sample's difference may lie, in robust standard deviations, before it
is clipped: a single outlier would drown all other evidence in its own standard error.
"""

WORTH_TRYING = "worth trying; compare"


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """What `check` found; as text, the recommendation in a sentence or two.

    Attributes
    ----------
    table : DataFrame
        A row for each option that can be run on these data, with the columns option; moved, the
        mean total variation distance between its memberships and those of the fit's options;
        density_gain, in nats per hidden entry, and its standard_error; t, of the fall of the
        squared error; r2, of the hidden entries against the means of the features by source;
        verdict.
    """

    table: pd.DataFrame

    @property
    def recommended(self) -> dict[str, Any]:
        """The option worth trying, as an argument of `BJMD` or `bjmd.fit`; empty if none is."""
        worth = self.table["option"][self.table["verdict"] == WORTH_TRYING]
        return dict(option.split("=") for option in worth[:1])

    def __str__(self) -> str:
        if self.recommended:
            best = self.table[self.table["verdict"] == WORTH_TRYING].iloc[0]
            return (
                f"{best['option']} is worth trying: it predicts hidden entries better, in squared "
                f"error (t = {best['t']:.1f}) as well as in density, and moves the memberships by "
                f"{best['moved']:.2f}. Fit with it and compare; keep it only if the result makes "
                "more sense."
            )
        if self.table.empty:
            return "No other option can be run on these data."
        if (self.table["r2"] <= 0).all():
            return (
                "No option can be judged: hidden entries are not predicted better than by the "
                "means of the features."
            )
        return "No other option is recommended: none clearly predicts hidden entries better."

    __repr__ = __str__


def check(sources: Sources, decomposition: Decomposition, *, seed: int = 0, jobs: int = 1) -> Check:
    """Compare the options of a fit with every other option that its data allow."""
    require_checkable(decomposition.method)
    sources.require_in_memory("hiding entries")
    options = alternatives(sources, decomposition)
    return Check(_compared(_thinned(sources, seed), decomposition, options, seed, jobs))


def require_checkable(method: str) -> None:
    """Refuse a method without noise models to compare."""
    if "noise" not in registry.get(method).options():
        raise InputError(f"method {method!r} has no noise models to compare; use cavi-bjmd")


def alternatives(sources: Sources, decomposition: Decomposition) -> list[str]:
    """The noise models beside that of a fit which can be run on its data."""
    factors = parsed(decomposition.options.get("noise", "source"))
    possible = [name for name in FACTORS if name not in factors]
    if any(sources.is_sparse):  # robust noise has a weight for every entry
        possible = [name for name in possible if name != "robust"]
    return ["+".join(f for f in FACTORS if f in (*factors, name)) for name in possible]


def _thinned(sources: Sources, seed: int) -> Sources:
    """The same sources with at most MOST_SAMPLES samples, drawn at random."""
    share = MOST_SAMPLES / sum(sources.n_samples)
    if share >= 1:
        return sources
    rng = np.random.default_rng(seed)
    drawn = [
        np.sort(rng.choice(n, max(2, round(share * n)), replace=False)) for n in sources.n_samples
    ]
    return Sources([x[:, part] for x, part in zip(sources.matrices, drawn, strict=True)])


def _compared(sources, decomposition, noises, seed, jobs) -> pd.DataFrame:
    """A row for each noise model, the most probable first."""
    rows: dict[str, dict[str, Any]] = {}
    totals: dict[str, Any] = {}
    given = {**decomposition.options, "tol": TOL, "max_sweeps": MOST_SWEEPS}
    plain = given.get("noise", "source")
    left = list(noises)
    with restarts.progress_bar(N_REPEATS * (1 + len(noises)), "check") as bar:
        for repeat in range(N_REPEATS):
            if not left:
                break
            hidden = held_out_entries.hide(sources, HIDDEN, np.random.default_rng((seed, repeat)))
            visible = held_out_entries.without(sources, hidden)
            fit = partial(registry.fit, decomposition.method, visible, decomposition.n_components)
            runs = [
                partial(fit, decomposition.seed, **given | {"noise": noise})
                for noise in (plain, *left)
            ]
            reference, *others = restarts.in_threads(runs, jobs, lambda *_: bar.update())
            by_sample = _by_sample(reference, others, sources, visible, hidden)
            for noise, samples in zip(left, by_sample, strict=True):
                totals[noise] = totals.get(noise, 0) + samples
                rows[noise] = {"option": f"noise={noise}", **_row(totals[noise])}
            left = [noise for noise in left if _is_promising(rows[noise])]
        bar.total = bar.n  # those that need no second look
        bar.refresh()
    table = pd.DataFrame(
        [{**row, "verdict": _verdict(row)} for row in rows.values()],
        columns=["option", "moved", "density_gain", "standard_error", "t", "r2", "verdict"],
    )
    table = table.sort_values("density_gain", ascending=False, kind="stable", ignore_index=True)
    also = table.index[table["verdict"] == WORTH_TRYING][1:]
    table.loc[also, "verdict"] = "better, but less than the one recommended"
    return table


def _by_sample(plain, others, sources, visible, hidden) -> list[pd.DataFrame]:
    """How much better than the plain fit the others predict the hidden entries of every sample.

    Squared errors are in units of the plain fit's noise.
    """
    unit = np.repeat(plain.noise, sources.n_samples) ** 2
    means = [x.means_of_rows for x in visible.data]
    of_means = _squares(sources, hidden, lambda c, part: means[c][:, None]) / unit
    of_plain = _squares(sources, hidden, partial(predictive.mean, plain)) / unit
    density = held_out_entries.log_densities(plain, sources, hidden)
    n = np.concatenate([where.sum(axis=0) for where in hidden])
    h = np.hstack(plain.memberships)
    spread = 0.5 * np.abs(h - h.mean(axis=1, keepdims=True)).sum(axis=0)
    tables = []
    for other in others:
        partner, _ = match(other, plain)
        error = _squares(sources, hidden, partial(predictive.mean, other)) / unit
        gain = held_out_entries.log_densities(other, sources, hidden) - density
        moved = 0.5 * np.abs(np.hstack(other.memberships)[partner] - h).sum(axis=0)
        tables.append(
            pd.DataFrame({"fall": of_plain - error, "error": error, "of_means": of_means}).assign(
                gain=gain, moved=moved, spread=spread, n=n, repeats=1
            )
        )
    return tables


def _squares(sources, hidden, prediction) -> np.ndarray:
    """Squared errors of the hidden entries of every sample; prediction(source number, samples)."""
    sums = []
    for c, (x, where) in enumerate(zip(sources.data, hidden, strict=True)):
        for part in predictive.blocks(x.shape[1], x.shape[0]):
            errors = x.columns(part) - prediction(c, part)
            sums.append((np.where(where[:, part].toarray(), errors, 0.0) ** 2).sum(axis=0))
    return np.concatenate(sums)


def _row(samples: pd.DataFrame) -> dict[str, Any]:
    """The numbers of a table, from sums over the repeats by sample.

    Where noise hides all structure, memberships hardly differ, and can move only so far.
    """
    gain, standard_error = held_out_entries.difference(_clipped(samples["gain"]), samples["n"])
    fall, deviation = held_out_entries.difference(_clipped(samples["fall"]), samples["n"])
    spread = (samples["spread"] / samples["repeats"]).mean()
    return {
        "moved": (samples["moved"] / samples["repeats"]).mean(),
        "least_move": min(LEAST_MOVE, LEAST_SHARE * spread),
        "density_gain": gain,
        "standard_error": standard_error,
        "t": fall / deviation if deviation > 0 else 0.0,
        "r2": 1 - samples["error"].sum() / samples["of_means"].sum(),
    }


def _is_promising(row: dict[str, Any]) -> bool:
    """Whether other hidden entries could still lead to a recommendation."""
    return (
        row["density_gain"] > 0
        and row["t"] > PROMISING_T
        and row["moved"] > PROMISING_MOVE * row["least_move"]
    )


def _verdict(row: dict[str, Any]) -> str:
    if row["r2"] <= 0:
        return "cannot be judged: hidden entries are not predicted"
    if row["density_gain"] <= LEAST_STANDARD_ERRORS * row["standard_error"]:
        return "no gain"
    if row["t"] <= LEAST_T:
        return "higher density, but no better prediction"
    if row["moved"] <= row["least_move"]:
        return "better, but memberships stay the same"
    return WORTH_TRYING


def _clipped(differences: np.ndarray) -> np.ndarray:
    """Differences by sample, none of which counts for more than is usual."""
    median = np.median(differences)
    reach = USUAL * NORMAL_OVER_MEDIAN * np.median(np.abs(differences - median))
    return np.clip(differences, median - reach, median + reach)

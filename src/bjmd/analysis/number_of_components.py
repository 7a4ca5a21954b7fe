"""How many components do the data carry?

    selection = select(sources, range(2, 11))
    print(selection)  # the recommendation, and how sure it is
    selection.table, bjmd.pl.selection(selection)

Each K is judged by entries that its fits never saw: a random share of every source, the same for
every K, is set to NaN, and the best of several restarts by objective (never by score) predicts it.
The score is the mean log predictive density (predictive.py) of all held-out entries of all sources
and repeats, in nats per entry.  Too few components miss signal and too many fit noise; both predict
worse, however the prior was scaled.  Two K are compared on the same entries by the standard error
of their difference.  Entries of one sample share its memberships and err together, so samples, not
entries, are taken as independent.

The smallest K within one standard error of the best is recommended.  The best itself may be too
large by chance, since components beyond the needed ones cost little.  The ELBO of the fits of all
the data misses components where there are many or much noise, and asks for ever more where the data
do not follow the model.  docs/how-to/components.md has measured both.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bjmd.analysis import held_out_entries
from bjmd.data.sources import Sources
from bjmd.errors import InputError, count, whole_number
from bjmd.inference import registry, restarts
from bjmd.results.decomposition import Decomposition, similarities

log = logging.getLogger(__name__)

SAME = 1e-5
"""Nats per entry that say nothing: fits stop at such changes, and components that vanish leave such
differences.
"""


@dataclass(frozen=True)
class Selection:
    """What `select` found; as text, the recommendation in a few sentences.

    Attributes
    ----------
    table : DataFrame
        A row for each K, with the columns k; elbo of the best fit of all the data (NaN for methods
        without one); heldout, the mean log predictive density of held-out entries; difference, its
        distance to the best K, and the standard_error of that difference; stability; converged, the
        share of all fits that met their stopping rule; and seconds, of all fits together.
    """

    table: pd.DataFrame

    @property
    def candidates(self) -> list[int]:
        """Every K that predicts held-out entries as well as the best, within a standard error."""
        reach = self.table["standard_error"].clip(lower=SAME)
        return self.table["k"][-self.table["difference"] <= reach].tolist()

    @property
    def recommended(self) -> int:
        """The smallest of the candidates."""
        return self.candidates[0]

    @property
    def best(self) -> int:
        """The K that predicts held-out entries best."""
        return int(self.table["k"][self.table["difference"].idxmax()])

    def __str__(self) -> str:
        return " ".join(_sentences(self))

    def text_table(self) -> pd.DataFrame:
        """The table for a reader: rounded and in words."""
        columns = {
            "K": [f"{k}" for k in self.table["k"]],
            "Held-out density": [f"{value:.4f}" for value in self.table["heldout"]],
            "Below the best": [
                "best" if k == self.best else f"{-behind:.2g} ± {error:.1g}"
                for k, behind, error in self.table[
                    ["k", "difference", "standard_error"]
                ].itertuples(index=False)
            ],
            "ELBO": [f"{value:,.0f}" for value in self.table["elbo"]],
            "Stability": [f"{value:.2f}" for value in self.table["stability"]],
            "Converged": [f"{100 * value:.0f} %" for value in self.table["converged"]],
        }
        return pd.DataFrame(columns).replace("nan", "–")


def select(
    sources: Sources,
    ks: Iterable[int],
    *,
    method: str = "cavi-bjmd",
    n_restarts: int = 5,
    held_out: float = 0.1,
    n_repeats: int = 3,
    seed: int = 0,
    jobs: int = 1,
    **options: Any,
) -> Selection:
    """Fit every K to all the data and to data with held-out entries, and recommend one.

    Parameters
    ----------
    sources : Sources
        The data, in memory.
    ks : iterable of int
        The numbers of components to try, for example range(2, 11).
    method : str, default="cavi-bjmd"
        A method that takes missing entries.
    n_restarts : int, default=5
        Fits of all the data for each K, with the seeds seed, seed + 1, ..., and as many again in
        each repeat.
    held_out : float, default=0.1
        Share of the entries of every source to hold out, zeros among them, between 0 and 0.5; of a
        sparse source at most as many as it stores.
    n_repeats : int, default=3
        Number of random hold-outs.
    seed : int, default=0
        Seed of the first fit, and of the choice of held-out entries.
    jobs : int, default=1
        Number of fits that run at the same time.  The result does not depend on it.
    **options
        Options of the method.

    Returns
    -------
    Selection
    """
    ks = _checked(sources, ks, method, held_out, options)
    for name, value in {"n_restarts": n_restarts, "n_repeats": n_repeats, "jobs": jobs}.items():
        whole_number(name, value, least=1)
    whole_number("seed", seed, least=0)
    n_fits = len(ks) * n_restarts
    with restarts.progress_bar(n_fits * (1 + n_repeats), "select") as bar:

        def fit_all(data: Sources, what: str) -> dict[int, list[Decomposition]]:
            """The fits of every K.  The longest start first, so that no thread ends with one."""
            runs = [(k, seed + i) for k in reversed(ks) for i in range(n_restarts)]
            calls = [partial(registry.fit, method, data, k, seed=s, **options) for k, s in runs]
            results = restarts.in_threads(calls, jobs, lambda *_: bar.update())
            if bar.disable:
                log.info("select: %d fits of %s are done", n_fits, what)
            return {k: [fit for fit in results if fit.n_components == k] for k in ks}

        of_all_data = fit_all(sources, "all the data")
        all_fits = {k: list(fits) for k, fits in of_all_data.items()}
        density = {k: np.zeros(sum(sources.n_samples)) for k in ks}
        n_hidden = np.zeros(sum(sources.n_samples), dtype=int)
        for repeat in range(n_repeats):
            hidden = held_out_entries.hide(sources, held_out, np.random.default_rng((seed, repeat)))
            visible = held_out_entries.without(sources, hidden)
            n_hidden += np.concatenate([where.sum(axis=0) for where in hidden])
            for k, fits in fit_all(visible, f"repeat {repeat + 1} of {n_repeats}").items():
                (best_fit,) = restarts.best(fits, 1)
                density[k] += held_out_entries.log_densities(best_fit, sources, hidden)
                all_fits[k] += [replace(fit, memberships=[], posterior=None) for fit in fits]

    best = max(ks, key=lambda k: density[k].sum())
    variational = registry.get(method).variational
    rows = []
    for k in ks:
        difference, standard_error = held_out_entries.difference(
            density[k] - density[best], n_hidden
        )
        rows.append(
            {
                "k": k,
                "elbo": -restarts.best(of_all_data[k], 1)[0].objective if variational else np.nan,
                "heldout": density[k].sum() / n_hidden.sum(),
                "difference": difference,
                "standard_error": standard_error,
                "stability": stability(of_all_data[k]),
                "converged": np.mean([fit.converged for fit in all_fits[k]]),
                "seconds": sum(fit.seconds for fit in all_fits[k]),
            }
        )
    return Selection(pd.DataFrame(rows))


def stability(results: list[Decomposition]) -> float:
    """The mean correlation of the best restart's components with those of the others.

    It is 1 if every restart ends with the same components, and NaN if there is only one restart.
    """
    if len(results) == 1:
        return np.nan
    return similarities(restarts.best(results, len(results))).mean()


def _checked(
    sources: Sources, ks: Iterable[int], method: str, held_out: float, options: dict
) -> list[int]:
    """ks in increasing order, if everything can be used."""
    if not registry.get(method).missing:
        able = registry.names_with("missing")
        raise InputError(
            f"method {method!r} cannot leave out the entries that select holds out; "
            f"use one of {able}"
        )
    registry.check_options(method, options)
    registry.require_sources(sources)
    given = ks if isinstance(ks, Iterable) else [ks]
    ks = sorted(whole_number("an entry of ks", k, least=1) for k in given)
    for k in ks:
        sources.require_components(k)
    if len(set(ks)) < len(ks) or len(ks) < 2:
        raise InputError(
            f"ks is {ks}; give at least two different numbers of components, "
            "for example range(2, 11)"
        )
    if isinstance(held_out, bool) or not isinstance(held_out, float) or not 0 < held_out < 0.5:
        raise InputError(
            f"held_out is {held_out!r}; it must be a share of the entries between 0 and 0.5"
        )
    sources.require_in_memory("holding out entries")
    return ks


def _sentences(selection: Selection) -> Iterator[str]:
    """The recommendation in plain words, then what speaks against it."""
    table = selection.table.set_index("k")
    k = selection.recommended
    best = selection.best
    others = [str(other) for other in selection.candidates if other not in (k, best)]
    is_largest = best == table.index[-1]
    if k == best and is_largest:
        yield (
            f"Recommended: {k} or more components. {k} is the largest number tried and predicts "
            "held-out data best, so try larger ones."
        )
    elif k == best:
        yield f"Recommended: {count(k, 'component')}, the number that predicts held-out data best."
    else:
        yield (
            f"Recommended: {count(k, 'component')}, the smallest number that predicts held-out "
            f"data as well as the best, {best}, within one standard error."
        )
    if others:
        yield f"Also within one standard error of the best: {', '.join(others)}."
    elif k == best:
        second = table["difference"].drop(k).idxmax()
        ratio = -table["difference"][second] / table["standard_error"][second]
        yield f"The second best, {second}, is {ratio:.1f} standard errors behind."
    if table["elbo"].notna().all() and table["elbo"].idxmax() != k:
        yield f"The ELBO is highest at {table['elbo'].idxmax()}."
    if is_largest and k != best:
        yield f"{best} is the largest number tried, so try larger ones."
    if k == table.index[0] and k > 1:
        yield f"{k} is the smallest number tried, so try smaller ones."
    if table["converged"][k] < 1:
        share = f"{100 * table['converged'][k]:.0f} %"
        yield f"Only {share} of the fits with {count(k, 'component')} converged."

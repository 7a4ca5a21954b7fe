"""Which noise model, and offsets or not: what noise="auto" and offsets="auto" mean.

A tenth of the entries is held out.  From the plainest model on, that part (feature, sample, robust,
offsets) is added that makes them most probable, as long as it gains more than ENOUGH standard
errors.  A part may answer what a later one answers better, so in the end every part that no longer
gains as much is taken out again.

A single wild entry among those held out can cost a normal density a million nats, and would drown
all other evidence in its own standard error.  So no sample counts for more than is usual (USUAL).
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bjmd.analysis import held_out_entries
from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.inference.noise import FACTORS, parsed

log = logging.getLogger(__name__)

AUTO = "auto"
SHARE = 0.1
N_STARTS = 2
TOL = 1e-5
"""Share of the entries to hold out; starts and tolerance of every fit, which need not be as good as
the last one.
"""
ENOUGH = 2.0
LEAST = 1e-3
"""Standard errors that a part must gain, for the best of several is often one above nothing; and
nats per entry, below which lies the tolerance of the fits.  A shift of a twentieth of the noise
gains as much.
"""
# how far from the median of all a sample's difference may lie, in sds by the median deviation
USUAL = 5.0


@dataclass(frozen=True)
class Choice:
    """What was chosen; as text, what and by how much it won.

    Attributes
    ----------
    noise, offsets : str, bool
        The options that were chosen.
    table : DataFrame
        A row for each model that was tried, best first: noise; offsets; heldout, the mean log
        predictive density of held-out entries; below, how much less it is than that of the model
        chosen, and standard_error of that.
    sentence : str
    """

    noise: str
    offsets: bool
    table: Any  # a DataFrame, which takes long to import
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def resolved(
    method: str,
    sources: Sources,
    n_components: int,
    options: dict[str, Any],
    *,
    seed: int = 0,
    jobs: int = 1,
) -> tuple[dict[str, Any], Choice | None]:
    """The options with "auto" replaced by what was chosen, and the choice; None if nothing was
    "auto".
    """
    asked = [
        name
        for name in ("noise", "offsets")
        if isinstance(options.get(name), str) and options[name] == AUTO
    ]
    if not asked:
        return options, None
    registry.check_options(method, options)
    registry.require_sources(sources)
    sources.require_in_memory("holding out entries")
    search = _Search(
        method,
        sources,
        n_components,
        {k: v for k, v in options.items() if k not in asked},
        seed,
        jobs,
    )
    given = {*(() if "noise" in asked else parsed(options.get("noise", "source")))}
    given |= {"offsets"} if "offsets" not in asked and options.get("offsets") else set()
    parts = [
        part
        for part in (*FACTORS, "offsets")
        if ("offsets" if part == "offsets" else "noise") in asked
    ]
    if any(
        sources.is_sparse
    ):  # which robust noise, with a weight for every entry, would make dense
        parts = [part for part in parts if part != "robust"]
    choice = search.choose(frozenset(given), parts)
    log.info(choice)
    return {**options, "noise": choice.noise, "offsets": choice.offsets}, choice


class _Search:
    """The models tried so far, each a set of parts, and the density of the held-out entries under
    each, by sample.
    """

    def __init__(self, method, sources, n_components, options, seed, jobs):
        self.hidden = held_out_entries.hide(sources, SHARE, np.random.default_rng((seed, 0)))
        self.count = np.concatenate([where.sum(axis=0) for where in self.hidden])
        self.fit = partial(
            registry.fit, method, held_out_entries.without(sources, self.hidden), n_components
        )
        self.sources = sources
        self.options = {"tol": TOL, **options}
        self.seed = seed
        self.jobs = jobs
        self.densities: dict[frozenset, np.ndarray] = {}

    def try_all(self, models):
        new = [model for model in models if model not in self.densities]
        seeds = range(self.seed, self.seed + N_STARTS)
        fits = [
            partial(self.fit, seed=seed, **self.options | _options(model))
            for model in new
            for seed in seeds
        ]
        results = restarts.in_threads(fits, self.jobs, lambda *_: None)
        for place, model in enumerate(new):
            (best,) = restarts.best(results[N_STARTS * place : N_STARTS * (place + 1)], 1)
            self.densities[model] = held_out_entries.log_densities(best, self.sources, self.hidden)

    def gain(self, model, other):
        """How much better one model predicts than another, in nats per entry, and its standard
        error.
        """
        by_sample = self.densities[model] - self.densities[other]
        median = np.median(by_sample)
        reach = USUAL * 1.4826 * np.median(np.abs(by_sample - median))
        return held_out_entries.difference(
            np.clip(by_sample, median - reach, median + reach), self.count
        )

    def worth(self, model, other):
        mean, standard_error = self.gain(model, other)
        return mean > max(ENOUGH * standard_error, LEAST)

    def choose(self, given: frozenset, parts: Collection[str]) -> Choice:
        chosen = given
        self.try_all([given])
        while larger := [chosen | {part} for part in parts if part not in chosen]:
            self.try_all(larger)
            best = max(larger, key=lambda model: self.gain(model, chosen)[0])
            if not self.worth(best, chosen):
                break
            chosen = best
        while smaller := [chosen - {part} for part in sorted(chosen - given)]:
            self.try_all(smaller)
            best = max(smaller, key=lambda model: self.gain(model, chosen)[0])
            if self.worth(chosen, best):
                break
            chosen = best
        return Choice(
            **_options(chosen), table=self.table(chosen), sentence=self.sentence(chosen, given)
        )

    def table(self, chosen):
        rows = []
        for model, density in sorted(self.densities.items(), key=lambda one: -one[1].sum()):
            below, standard_error = self.gain(chosen, model)
            heldout = density.sum() / self.count.sum()
            rows.append(
                {
                    **_options(model),
                    "heldout": heldout,
                    "below": below,
                    "standard_error": standard_error,
                }
            )
        from pandas import DataFrame  # takes long to import, and few fits choose

        return DataFrame(rows)

    def sentence(self, chosen, given):
        if chosen == given:
            return f"Chosen: {_words(chosen)}; nothing beyond it predicts held-out entries clearly better."
        losses = {
            part: self.gain(chosen, chosen - {part})
            for part in (*FACTORS, "offsets")
            if part in chosen - given
        }
        text = (
            f"Chosen: {_words(chosen)}, which predicts held-out entries better than {_words(given)} by "
            f"{_plus_minus(*self.gain(chosen, given))} nats per entry."
        )
        if len(losses) > 1:
            each = (f"{_plus_minus(*loss)} without {part}" for part, loss in losses.items())
            text += f" It would lose {', '.join(each)}."
        return text


def _options(model):
    """The options of a method that a set of parts stands for."""
    return {
        "noise": "+".join(part for part in FACTORS if part in model) or "source",
        "offsets": "offsets" in model,
    }


def _words(model):
    options = _options(model)
    return f"noise {options['noise']} {'with' if options['offsets'] else 'without'} offsets"


def _plus_minus(mean, standard_error):
    return f"{mean:.2g} ± {standard_error:.1g}"

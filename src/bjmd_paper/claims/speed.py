"""Time: ratios within one run, judged by their logarithms, for the paper's seconds are those of
another machine.
"""

import numpy as np

from bjmd_paper.claims.evidence import best_of, found, restart_effects
from bjmd_paper.claims.rules import Claims, Missing, all_of, beats
from bjmd_paper.claims.statistics import times

NOT_BAYESIAN = ("kmeans", "jnmf", "semi-nmf")


def _much_slower(evidence, cells):
    """Much slower: beyond what the paper itself calls comparable.  Cells are (family, slow, fast)."""

    def ratio(family, slow, fast):
        try:
            return evidence.time_ratios(family, slow, fast)
        except Missing:
            return evidence.run_time_ratio(family, slow, fast)

    effects, lacking = found([lambda cell=cell: ratio(*cell) for cell in cells])
    comparable = evidence.margins.comparable_time
    outcome = beats(effects, least=comparable)
    return outcome.noting(f"up to {times(comparable)} is what the paper calls comparable").noting(
        lacking
    )


def _total_and_each(family):
    def ratios(evidence):
        cat, apart = (evidence.fit_runs(family, fit) for fit in ("advi-catbjmd", "advi-bjmd"))
        total = cat["seconds"].mean() / apart["seconds"].mean()
        each = (cat["seconds"] / cat["iterations"]).mean() / (
            apart["seconds"] / apart["iterations"]
        ).mean()
        return f"on the processor VI-cat takes {total:.2f} of the time of VI, {each:.2f} for an iteration ({family})"

    return ratios


def jmd_is_slow(evidence):
    families = ["small", "large", *evidence.real_families()]
    pairs = (("jmd", "map-bjmd"), ("glad", "map-catbjmd"))
    return _much_slower(evidence, [(family, *pair) for family in families for pair in pairs])


def _advi_seconds(evidence):
    seconds = evidence.fit_runs("large", "advi-bjmd")["seconds"]
    return f"ADVI takes {seconds.mean():,.0f} s on one core here"


def _log_time_over(evidence, family, one, *, turned=False):
    """The logarithm of the time of one fit over the slowest that is not Bayesian; turned, of theirs
    over its.
    """
    ours = evidence.restarts(family, one, "seconds").mean()
    slowest = best_of(
        [evidence.restarts(family, other, "seconds").mean() for other in NOT_BAYESIAN]
    )
    prints = [evidence.print_of(family, fit, "seconds") for fit in (one, *NOT_BAYESIAN)]
    printed = (
        None
        if any(each is None for each in prints)
        else np.log(prints[0][:1] / max(each[0] for each in prints[1:]))
    )
    sign = -1 if turned else 1
    return restart_effects(
        f"{one} on {family}",
        lambda a, b: sign * np.log(a / b),
        ours,
        slowest,
        printed=None if printed is None else sign * printed,
        form=times,
    )


def bayesian_methods_are_slow(evidence):
    cells = [(family, fit) for family in evidence.real_families() for fit in ("advi-bjmd", "bnmf")]
    effects, lacking = found([lambda cell=cell: _log_time_over(evidence, *cell) for cell in cells])
    return beats(effects).noting(lacking)


def _not_slower(evidence, fit):
    effects, lacking = found(
        [
            lambda family=family: _log_time_over(evidence, family, fit, turned=True)
            for family in evidence.real_families()
        ]
    )
    return (
        beats(effects)
        .noting("the slowest of K-means, joint NMF and semi-NMF over MAP")
        .noting(lacking)
    )


CLAIMS: Claims = {
    "T1": jmd_is_slow,
    "T2": _total_and_each("small"),
    "T3": _total_and_each("large"),
    "T4": lambda evidence: _much_slower(
        evidence,
        [
            ("small", "advi-bjmd", "map-bjmd-printed"),
            ("small", "advi-catbjmd", "map-catbjmd-printed"),
        ],
    ),
    "T4-closed": lambda evidence: _much_slower(
        evidence, [("small", "cavi-bjmd", "map-bjmd"), ("small", "cavi-catbjmd", "map-catbjmd")]
    ),
    "T4-jmd": lambda evidence: _much_slower(
        evidence, [("small", "jmd", "map-bjmd"), ("small", "glad", "map-catbjmd")]
    ),
    "L6": _advi_seconds,
    "L7": lambda evidence: _much_slower(
        evidence,
        [
            ("large", "advi-bjmd", "map-bjmd-printed"),
            ("large", "advi-catbjmd", "map-catbjmd-printed"),
        ],
    ),
    "L7-closed": lambda evidence: _much_slower(
        evidence, [("large", "cavi-bjmd", "map-bjmd"), ("large", "cavi-catbjmd", "map-catbjmd")]
    ),
    "R11a": bayesian_methods_are_slow,
    "R11b": lambda evidence: _not_slower(evidence, "map-bjmd"),
    "R11b-printed": lambda evidence: _not_slower(evidence, "map-bjmd-printed"),
    "R12": lambda evidence: all_of(evidence, L7=CLAIMS["L7"], R11b=CLAIMS["R11b"]),
}

"""The five verdicts, and how effects become one of them.

A claim says that an effect lies in a range: above a margin, say, or within plus and minus a margin.
It is about one or several cells (sources, noise levels, data sets), each with an interval.

- It **holds** if in every cell the whole interval lies in the range.
- It holds, but the effect is **much smaller than printed**, if besides that the whole interval of
  the mean effect lies below half of the printed one.
- **The reverse is true** if in some cell the whole interval lies outside the range.
- Otherwise it is **inconclusive**: some interval contains both.
- It **cannot be tested here** if the run did not make what it is about, or no run can.

A fact of yes or no has no interval: it holds, or the reverse is true.
"""

from dataclasses import dataclass, replace

import numpy as np

from bjmd_paper.claims.statistics import overall, times, with_interval

HOLDS = "holds"
SMALLER = "holds, but much smaller than printed"
REVERSE = "the reverse is true"
INCONCLUSIVE = "inconclusive"
UNTESTABLE = "cannot be tested here"
VERDICTS = (HOLDS, SMALLER, REVERSE, INCONCLUSIVE, UNTESTABLE)
MUCH_SMALLER = 0.5

RANGES = {
    "above": lambda margin: (margin, np.inf),
    "not below": lambda margin: (-margin, np.inf),
    "within": lambda margin: (-margin, margin),
    "at most": lambda margin: (-np.inf, margin),
    "not always above": lambda margin: (margin, np.inf),
    "reached": lambda margin: (0.0, np.inf),
    "compatible": lambda margin: (0.0, 0.0),
}
"""What `test` of a claim may say, and the range that it means for a margin.

"not always above" turns "above" round.  "reached" and "compatible" ask whether an interval allows
for a number, which is a fact: no cell lies outside the range.
"""


@dataclass(frozen=True)
class Outcome:
    """What was found about one claim; all texts are for the table."""

    verdict: str
    paper: str = ""
    ours: str = ""
    numbers: str = ""
    paper_tables_agree: str = ""
    """Whether the paper's own tables support the sentence: yes, no, or empty if they are silent."""
    intervals: int = 0
    """The number of intervals over draws that decided it."""

    def noting(self, *texts):
        return replace(self, numbers="; ".join(filter(None, [self.numbers, *texts])))


def fact(true, paper, ours, numbers=""):
    """The outcome of a plain question of yes or no."""
    return Outcome(HOLDS if true else REVERSE, paper, ours, numbers)


def judge(effects, test="above", margin=0.0):
    """The outcome of a claim about some effects."""
    least, most = RANGES[test](margin)
    outside = []
    unclear = []
    for effect in effects:
        # over starts, the estimate of the chosen ones need not lie in the interval of all
        ends = [*effect.interval(len(effects)), effect.estimate]
        if max(ends) < least or min(ends) > most:
            outside.append(effect.label)
        elif min(ends) <= least or max(ends) >= most:
            unclear.append(effect.label)
    turned = test == "not always above"
    if test in ("reached", "compatible"):
        ours = f"{len(effects) - len(outside)} of {len(effects)} cells"
        outcome = fact(not outside, "", ours, _listed(f"not {test} in", outside))
    else:
        outcome = Outcome(_verdict(effects, test, outside, unclear), *_shown(effects, test)).noting(
            _listed("not above in" if turned else "the reverse is true in", outside),
            _listed("inconclusive in", unclear),
            f"margin {effects[0].form(margin).lstrip('+')}" if margin else "",
        )
    prints = [effect.printed for effect in effects if effect.printed is not None]
    agree = all(least <= printed <= most for printed in prints) != turned
    return replace(
        outcome.noting(", ".join(effect.text(len(effects)) for effect in effects)),
        paper_tables_agree=("yes" if agree else "no") if prints else "",
        intervals=sum(effect.over != "starts" for effect in effects),
    )


def _verdict(effects, test, outside, unclear):
    if test == "not always above":
        return HOLDS if outside else INCONCLUSIVE if unclear else REVERSE
    if outside or unclear:
        return REVERSE if outside else INCONCLUSIVE
    if test in ("above", "not below"):
        printed, *ours = _means(effects)
        if printed is not None and printed > 0 and max(ours) < MUCH_SMALLER * printed:
            return SMALLER
    return HOLDS


def _means(effects):
    """The printed mean or None, ours, and the ends of its interval, of the cells that have one."""
    printed_effects = [effect for effect in effects if effect.printed is not None]
    if not printed_effects:
        return None, *overall(effects)
    return np.mean([effect.printed for effect in printed_effects]), *overall(printed_effects)


def _shown(effects, test):
    """What the table shows of the paper and of ours."""
    form = effects[0].form
    if test == "within" and len(effects) > 1:
        largest = max(effects, key=lambda effect: abs(effect.estimate))
        ours = f"at most {form(abs(largest.estimate)).lstrip('+')} apart ({largest.label})"
        prints = [abs(effect.printed) for effect in effects if effect.printed is not None]
        return f"at most {form(max(prints)).lstrip('+')} apart" if prints else "", ours
    printed, mean, low, high = _means(effects)
    ours = with_interval(form, effects[0].over, mean, low, high)
    if test == "above" and printed is not None and printed > 0 and mean > 0 and form is not times:
        ours += f", {100 * mean / printed:.0f} % of the print"
    if len(effects) > 1:
        word, extreme = ("most", max) if test == "at most" else ("least", min)
        worst = extreme(effects, key=lambda effect: effect.estimate)
        ours += f"; {word} {form(worst.estimate)} ({worst.label})"
    return "" if printed is None else form(printed), ours


def _listed(words, labels):
    return f"{words} {', '.join(labels)}" if any(labels) else ""

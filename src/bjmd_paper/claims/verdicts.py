"""How effects become one of four verdicts.

A claim over several cells (sources, noise levels, data sets) has to hold in each of them, and its
intervals are widened by Bonferroni's correction.  "Much smaller than printed" is a convention: the
whole interval of the mean effect lies below half of the printed one.
"""

from dataclasses import dataclass, replace

from bjmd_paper.claims.statistics import average, between, points, times

HOLDS = "holds"
SMALLER = "holds, but much smaller than printed"
FAILS = "does not hold"
UNTESTABLE = "cannot be tested here"
VERDICTS = (HOLDS, SMALLER, FAILS, UNTESTABLE)
"""From the best to the worst."""
MUCH_SMALLER = 0.5


@dataclass(frozen=True)
class Outcome:
    """What was found about one claim; all texts are for the table."""

    verdict: str
    paper: str = ""
    ours: str = ""
    numbers: str = ""
    paper_tables_agree: str = ""
    """Whether the paper's own tables support the sentence: yes, no, or empty if they are silent."""

    def noting(self, *texts):
        return replace(self, numbers="; ".join(filter(None, [self.numbers, *texts])))


def fact(true, paper, ours, numbers=""):
    """The outcome of a plain question of yes or no."""
    return Outcome(HOLDS if true else FAILS, paper, ours, numbers)


def above(effects, margin=0.0):
    """Every effect is above the margin."""
    return _judge(effects, lambda low: low > margin, margin)


def not_below(effects, margin):
    """No effect is below zero by more than the margin: similar or better."""
    outcome = _judge(effects, lambda low: low >= -margin, -margin)
    better = all(effect.interval(len(effects))[0] > 0 for effect in effects)
    note = f"margin {effects[0].form(margin)}, without it (strictly better): {_yes_no([better])}"
    return outcome.noting(note)


def within(effects, margin):
    """Every effect lies between minus and plus the margin: the same."""
    ends = [effect.interval(len(effects)) for effect in effects]
    inside = [-margin <= low and high <= margin for low, high in ends]
    _, apart = _off_zero(effects)
    prints = [effect.printed for effect in effects if effect.printed is not None]
    largest = max(effects, key=lambda effect: abs(effect.mean))
    form = largest.form
    return Outcome(
        HOLDS if all(inside) else FAILS,
        f"at most {form(max(map(abs, prints))).lstrip('+-')} apart" if prints else "",
        f"at most {form(abs(largest.mean)).lstrip('+')} apart ({largest.label})",
        f"{_cells(effects)}; margin {form(margin).lstrip('+')}; "
        f"an interval without 0: {', '.join(apart) or 'none'}",
        _yes_no([abs(printed) <= margin for printed in prints]),
    )


def reached(effects, margin=0.0):
    """No effect, ours minus the printed number, is clearly below zero."""
    lower, apart = _off_zero(effects)
    higher = [label for label in apart if label not in lower]
    worst = min(effects, key=lambda effect: effect.mean)
    notes = [f"below the print in {', '.join(lower)}"] if lower else []
    notes += [f"above it by more than the interval in {', '.join(higher)}"] if higher else []
    return fact(
        not lower,
        "",
        f"{len(effects) - len(lower)} of {len(effects)} cells",
        "; ".join([*notes, f"lowest {worst.label} {points(worst.mean)}", _cells(effects)]),
    )


def consistent(effects, margin=0.0):
    """Every interval covers zero; effects are ours minus printed, over draws."""
    _, apart = _off_zero(effects)
    numbers = ", ".join(
        f"{effect.label} {-effect.mean / effect.values.std():+.1f} sd" for effect in effects
    )
    return fact(
        not apart,
        "one draw",
        f"{len(effects) - len(apart)} of {len(effects)} cells",
        f"print minus our mean, in sds of a draw: {numbers}",
    )


def not_always_above(effects, margin=0.0):
    """At least one effect is below zero."""
    lower, _ = _off_zero(effects)
    prints = [effect.printed for effect in effects if effect.printed is not None]
    paper = f"lower in {sum(printed < 0 for printed in prints)} of {len(prints)} sources"
    ours = f"lower in {', '.join(lower) or 'no source'}"
    return fact(bool(lower), paper if prints else "", ours, _cells(effects))


TESTS = {
    "above": above,
    "not below": not_below,
    "within": within,
    "reached": reached,
    "consistent": consistent,
    "not always above": not_always_above,
}
"""What `test` of a claim may say."""


def combined(parts):
    """The outcome of a sentence of several parts, {label: outcome}: the worst that was tested."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    tested = {name: part for name, part in parts.items() if part.verdict != UNTESTABLE}
    if not tested:
        reasons = dict.fromkeys(part.numbers for part in parts.values())
        return Outcome(UNTESTABLE, numbers="; ".join(reasons))
    agree = [part.paper_tables_agree for part in tested.values() if part.paper_tables_agree]
    return Outcome(
        max((part.verdict for part in tested.values()), key=VERDICTS.index),
        "; ".join(f"{name}: {part.paper}" for name, part in tested.items() if part.paper),
        "; ".join(f"{name}: {part.ours or 'not made'}" for name, part in parts.items()),
        "; ".join(f"{name}: {part.verdict}, {part.numbers}" for name, part in parts.items()),
        _yes_no([answer == "yes" for answer in agree]),
    )


def _judge(effects, holds, margin):
    missed = [effect for effect in effects if not holds(effect.interval(len(effects))[0])]
    printed_effects = [effect for effect in effects if effect.printed is not None]
    mean = average(printed_effects or effects)
    printed = mean.printed if mean else None
    form = effects[0].form
    if missed:
        verdict = FAILS
    elif printed is not None and printed > 0 and mean.interval()[1] < MUCH_SMALLER * printed:
        verdict = SMALLER
    else:
        verdict = HOLDS
    if mean:
        ours = f"{form(mean.mean)} ({between(form, *mean.interval())})"
    else:
        means = [effect.mean for effect in effects]
        ours = between(form, min(means), max(means))
    if printed is not None and printed > 0 and mean.mean > 0 and form is not times:
        ours += f", {100 * mean.mean / printed:.0f} % of the print"
    return Outcome(
        verdict,
        "" if printed is None else form(printed),
        ours,
        "; ".join([*_reasons(missed, margin, len(effects)), _cells(effects)]),
        _yes_no([holds(effect.printed) for effect in printed_effects]),
    )


def _reasons(missed, margin, cells):
    """Why cells miss: the reverse is true, or nothing was shown."""
    reversed_in = [effect.label for effect in missed if effect.interval(cells)[1] < margin]
    unclear_in = [effect.label for effect in missed if effect.label not in reversed_in]
    reasons = [f"the reverse is true in {', '.join(reversed_in)}"] if reversed_in else []
    return [*reasons, f"not shown in {', '.join(unclear_in)}"] if unclear_in else reasons


def _off_zero(effects):
    """The labels of the effects whose interval is below zero, and of all without zero in it."""
    ends = {effect.label: effect.interval(len(effects)) for effect in effects}
    lower = [label for label, (_, high) in ends.items() if high < 0]
    return lower, [label for label, (low, high) in ends.items() if low > 0 or high < 0]


def _cells(effects):
    return ", ".join(effect.text(len(effects)) for effect in effects)


def _yes_no(answers):
    if not answers:
        return ""
    return "yes" if all(answers) else "no"

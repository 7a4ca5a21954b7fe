"""Every sentence of the paper's result sections, as a test that could fail.

The sentences are in sentences.toml, in the order of the paper.  Each module judges those of a
section: its CLAIMS are functions of the `Evidence` that give an `Outcome`.
"""

import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

from bjmd_paper import tables
from bjmd_paper.claims import (
    conclusions,
    convergence,
    features,
    heterogeneity,
    noise,
    objectives,
    real_data,
    rules,
    speed,
    sweeps,
)
from bjmd_paper.claims.evidence import Evidence
from bjmd_paper.claims.rules import FAILS, HOLDS, SMALLER, UNTESTABLE

MODULES = (
    convergence,
    noise,
    objectives,
    heterogeneity,
    speed,
    sweeps,
    real_data,
    features,
    conclusions,
)
COLUMNS = ["section", "id", "claim", "paper", "ours", "verdict", "own_table", "numbers"]
SHORT = {"claim": "Claim", "paper": "Paper", "ours": "Ours", "verdict": "Verdict"}
MORE = {"id": "No.", "own_table": "Paper's tables agree"}
SAYS = {
    HOLDS: "hold",
    SMALLER: "hold, but the effect is much smaller than printed",
    FAILS: "do not hold",
    UNTESTABLE: "cannot be tested here",
}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper; calling it with the evidence gives its outcome."""

    section: str
    id: str
    sentence: str
    function: Callable | None
    reason: str
    """Why it cannot be tested; its function, if it has one, then gives a number to show."""
    main: bool

    def __call__(self, evidence):
        if not self.reason:
            return rules.outcome(self.function, evidence)
        try:
            ours = self.function(evidence) if self.function else ""
        except rules.Missing:
            ours = ""
        return replace(rules.untestable(self.reason), ours=ours)


@cache
def _text():
    return tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))


@cache
def claims():
    """All claims in the order of the paper."""
    text = _text()
    functions = {id: function for module in MODULES for id, function in module.CLAIMS.items()}
    return tuple(
        Claim(
            section["title"],
            id,
            sentence,
            functions.get(id),
            section.get("reasons", {}).get(id, ""),
            id in text["main"],
        )
        for section in text["section"]
        for id, sentence in section["sentences"].items()
    )


def judge(evidence):
    """The verdict table: one row for each claim."""
    return pd.DataFrame(
        [
            {
                "section": claim.section,
                "id": claim.id,
                "claim": claim.sentence,
                **asdict(claim(evidence)),
            }
            for claim in claims()
        ]
    )[COLUMNS]


def table(runs, draws, advi, features, feature_auc, families):
    """The verdicts on a run; `runs` are the scores of its `families`, the others frames or lists of
    frames.
    """
    evidence = Evidence(
        dict(zip(families, runs, strict=True)), *map(_joined, (draws, advi, features, feature_auc))
    )
    verdicts = judge(evidence)
    return tables.Table(verdicts, shown(verdicts))


def _joined(frames):
    if isinstance(frames, pd.DataFrame):
        return frames
    return pd.concat(frames, ignore_index=True) if len(frames) else pd.DataFrame()


def shown(verdicts):
    """What people read: the main claims on one screen, then all claims by section, then the numbers
    behind them.
    """
    main = verdicts["id"].isin([claim.id for claim in claims() if claim.main])
    named = verdicts.rename(columns=SHORT)
    parts = [_counts("All sentences", verdicts), _counts("The main claims", verdicts[main])]
    parts += [_marked(named[main][list(SHORT.values())]), " ".join(_text()["how_to_read"].split())]
    for title, rows in named.groupby("section", sort=False):
        parts += [
            f"{title}:",
            _marked(rows.rename(columns=MORE)[[MORE["id"], *SHORT.values(), MORE["own_table"]]]),
        ]
    details = verdicts[verdicts["numbers"] != ""].rename(columns={**MORE, "numbers": "Numbers"})
    parts += ["The numbers behind the verdicts:", details[[MORE["id"], "Numbers"]]]
    return parts


def _marked(cells):
    """The verdicts in colour."""
    looks = {HOLDS: "good", SMALLER: "weak", FAILS: "bad"}
    marks = cells.map(lambda _: "")
    return tables.Marked(cells, marks.assign(Verdict=cells["Verdict"].map(looks).fillna("")))


def _counts(what, verdicts):
    """How many there are of each verdict, as a sentence."""
    number = verdicts["verdict"].value_counts()
    told = ", ".join(f"{number.get(verdict, 0)} {says}" for verdict, says in SAYS.items())
    return f"{what}, {len(verdicts)} in number: {told}."

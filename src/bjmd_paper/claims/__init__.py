"""The paper's claims, each as a test that could fail.

The claims are data: claims.toml lists them, and says how to add one.  `kinds` has the comparisons
that an entry may ask for, and `verdicts` judges what they find in the `Evidence` of a run.
"""

import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

from bjmd.errors import InputError
from bjmd_paper import tables
from bjmd_paper.claims import verdicts
from bjmd_paper.claims.evidence import Evidence, Missing
from bjmd_paper.claims.kinds import KINDS
from bjmd_paper.claims.verdicts import FAILS, HOLDS, SMALLER, UNTESTABLE, Outcome

HEADS = {
    "id": "No.",
    "claim": "Claim",
    "paper": "Paper",
    "ours": "Ours",
    "verdict": "Verdict",
    "paper_tables_agree": "Paper's tables agree",
    "numbers": "Numbers",
}
COUNTS = {
    HOLDS: "hold",
    SMALLER: "hold, but the effect is much smaller than printed",
    FAILS: "do not hold",
    UNTESTABLE: "cannot be tested here",
}
LOOKS = {HOLDS: "good", SMALLER: "weak", FAILS: "bad"}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the comparisons that test it."""

    section: str
    id: str
    sentence: str
    main: bool
    reason: str
    """Why it cannot be tested; its reading, if it has one, then only gives numbers to show."""
    readings: dict[str, dict[str, dict]]
    """Label of a reading -> label of its part -> keys of the comparison; the first decides."""

    def outcomes(self, evidence):
        """The outcome of every reading, by its label; all parts of a reading have to hold."""
        found = {
            label: verdicts.combined(
                {part: compare(keys, evidence) for part, keys in parts.items()}
            )
            for label, parts in self.readings.items()
        }
        if not self.reason:
            return found
        ours = found[""].ours if found else ""
        return {"": Outcome(UNTESTABLE, ours=ours, numbers=self.reason)}


def compare(keys, evidence):
    """The outcome of one comparison, whose `keys` are those of an entry of claims.toml."""
    judging = {"test": "above", "margin": 0.0, "note": "", "smallest": False}
    options = {key: value for key, value in keys.items() if key not in judging}
    asked = {**judging, **keys}
    try:
        result = KINDS[options.pop("kind")](evidence, **options)
    except Missing as lacking:
        return Outcome(UNTESTABLE, numbers=f"this run did not make {lacking}")
    if isinstance(result, Outcome):
        return result.noting(asked["note"])
    effects, notes = result
    margin = evidence.margins.get(asked["margin"], asked["margin"])
    outcome = verdicts.TESTS[asked["test"]](effects, margin)
    if asked["smallest"]:
        least = min(effects, key=lambda effect: effect.mean)
        text = f"smallest gap {least.form(least.mean)} ({least.label})"
        outcome = replace(outcome, ours=f"{outcome.ours}; {text}")
    return outcome.noting(asked["note"], *notes)


@cache
def _text():
    return tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))


@cache
def claims():
    """All claims in the order of the paper."""
    sections = _text()["section"]
    return tuple(claim(entry, part["title"]) for part in sections for entry in part["claim"])


def claim(entry, section=""):
    """The claim that an entry of claims.toml describes."""
    shared = {"main": False, "reason": "", **entry}
    fields = {name: shared.pop(name) for name in ("id", "sentence", "main", "reason")}
    also = shared.pop("also", [])
    readings = {}
    if shared:
        readings = {keys.get("label", ""): _parts({**shared, **keys}) for keys in ({}, *also)}
    return Claim(section, readings=readings, **fields)


def _parts(keys):
    """The comparisons of one reading by label, with groups and pairs in place of their names."""
    parts = {}
    for part in keys.pop("parts", [{}]):
        merged = _with_groups({**keys, **part})
        if "pairs" in merged:
            merged["pairs"] = _pairs(merged["pairs"])
        parts[merged.pop("label", "")] = merged
    return parts


def _pairs(given):
    """The pairs by label, from a list of names or from {label: pair}."""
    known = _text()["pairs"]
    if isinstance(given, list) and all(isinstance(name, str) and name in known for name in given):
        return {name: known[name] for name in given}
    if isinstance(given, dict) and all(
        isinstance(pair, list) and len(pair) == 2 for pair in given.values()
    ):
        return given
    raise InputError(
        f"pairs = {given!r} in claims.toml must be a list of names under [pairs], or "
        "{label = [one fit, the other]}"
    )


def _with_groups(value):
    """The same with the fits of every group in place of its name."""
    if isinstance(value, dict):
        return {key: _with_groups(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_with_groups(below) for below in value]
    return _text()["groups"].get(value, value) if isinstance(value, str) else value


def judge(evidence):
    """The verdict table: a row for every reading of every claim, the decisive one first."""
    return pd.DataFrame(
        [
            {
                "section": claim.section,
                "id": claim.id,
                "claim": claim.sentence,
                "reading": label,
                **asdict(outcome),
            }
            for claim in claims()
            for label, outcome in claim.outcomes(evidence).items()
        ]
    )


def table(runs, draws, advi, features, feature_auc, families, rows, table_sigma3):
    """The verdicts on a run.

    `runs` are the scores of its `families`, the other inputs are frames or lists of frames, and
    `rows` has the paper's row of every fit.
    """
    paper_rows = {fit: row["paper_row"] for fit, row in rows.items() if "paper_row" in row}
    frames = map(_joined, (draws, advi, features, feature_auc))
    runs = dict(zip(families, runs, strict=True))
    table = judge(Evidence(paper_rows, table_sigma3, runs, *frames))
    return tables.Table(table, shown(table))


def _joined(frames):
    if isinstance(frames, pd.DataFrame):
        return frames
    return pd.concat(frames, ignore_index=True) if len(frames) else pd.DataFrame()


def shown(table):
    """What people read: the main claims, all claims by section, and the numbers behind them."""
    decisive = table[table["reading"] == ""]
    main = decisive[decisive["id"].isin([claim.id for claim in claims() if claim.main])]
    parts = [
        _counts("All claims", decisive),
        _counts("The main claims", main),
        _marked(main, ["claim", "paper", "ours", "verdict"]),
        " ".join(_text()["how_to_read"].split()),
    ]
    with_readings = decisive.assign(ours=[_all_readings(table, id) for id in decisive["id"]])
    columns = ["id", "claim", "paper", "ours", "verdict", "paper_tables_agree"]
    for section in _text()["section"]:
        rows = with_readings[with_readings["section"] == section["title"]]
        parts += [f"{section['title']}:", _marked(rows, columns)]
        parts += [section["note"]] if "note" in section else []
    details = table[table["numbers"] != ""]
    names = [f"{row.id}, {row.reading}".removesuffix(", ") for row in details.itertuples()]
    details = details.assign(id=names)[["id", "numbers"]].rename(columns=HEADS)
    return [*parts, "The numbers behind the verdicts:", details]


def _all_readings(table, id):
    """What was found about a claim, and after it what its other readings give."""
    first, *others = table[table["id"] == id].itertuples()
    texts = [f"{row.reading}: {row.ours} – {row.verdict}".replace(":  –", ":") for row in others]
    return "; ".join(filter(None, [first.ours, *texts]))


def _marked(table, columns):
    """Some columns as they are shown, with the verdicts in colour."""
    cells = table[columns].rename(columns=HEADS)
    marks = cells.map(lambda _: "").assign(Verdict=cells["Verdict"].map(LOOKS).fillna(""))
    return tables.Marked(cells, marks)


def _counts(what, table):
    """How many there are of each verdict, as a sentence."""
    number = table["verdict"].value_counts()
    counts = ", ".join(f"{number.get(verdict, 0)} {words}" for verdict, words in COUNTS.items())
    return f"{what}, {len(table)} in number: {counts}."

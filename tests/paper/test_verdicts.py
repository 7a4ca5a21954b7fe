"""Each claim must be able to come out both ways, and to be untestable."""

import pandas as pd
import pytest

from bjmd_paper import verdicts
from bjmd_paper.verdicts import Evidence


def shown(**auc):
    """A summary with the given AUCs per source."""
    return pd.DataFrame(
        [
            {"fit": fit.replace("_", "-"), "source": c + 1, "auc": value, "noise": value / 100}
            for fit, values in auc.items()
            for c, value in enumerate(values)
        ]
    )


def sweep(**lines):
    """AUCs (equal in all three sources unless a tuple is given) of fits at sigma3 = 1.5, 2.5, 5.5."""
    return pd.DataFrame(
        [
            {
                "fit": fit.replace("_", "-"),
                "sigma3": sigma3,
                "source": c + 1,
                "auc": value[c] if isinstance(value, tuple) else value,
            }
            for fit, values in lines.items()
            for sigma3, value in zip((1.5, 2.5, 5.5), values, strict=True)
            for c in range(3)
        ]
    )


PRINTED = pd.DataFrame(
    {"data": "yale-b", "row": ["MAP-BJMD", "MAP-BJMD", "K-means"], "source": [1, 2, 1], "auc": [97.0, 93.0, 99.0]}
)

CASES = {
    "the paper's numbers": (
        verdicts.the_numbers_are_reached,
        Evidence({"yale-b": shown(map_bjmd=[96.1, 94], kmeans=[50, 50])}, {}, PRINTED),
        Evidence({"yale-b": shown(map_bjmd=[95.9, 94], kmeans=[99, 99])}, {}, PRINTED),
    ),
    "aware beats blind": (
        verdicts.telling_noise_apart_helps,
        Evidence({"small": shown(map_bjmd=[99, 90, 80], map_catbjmd=[98, 80, 70])}, {}),
        Evidence({"small": shown(map_bjmd=[99, 90, 80], map_catbjmd=[98, 95, 70])}, {}),
    ),
    "noise": (
        verdicts.noise_is_found,
        Evidence({"small": shown(truth=[100, 250, 400], cavi_bjmd=[101, 249, 410])}, {}),
        Evidence({"small": shown(truth=[100, 250, 400], cavi_bjmd=[110, 249, 410])}, {}),
    ),
    "gap": (
        verdicts.the_gap_widens,
        Evidence({}, {"large": sweep(jmd=(99, 99, 98), glad=(98, 97, 80))}),
        Evidence({}, {"large": sweep(jmd=(99, 99, 98), glad=(90, 91, 97))}),
    ),
    "protected": (
        verdicts.clean_sources_are_protected,
        Evidence({}, {"small": sweep(map_bjmd=((99, 95, 95), (99, 95, 90), (98.5, 94, 70)))}),
        Evidence({}, {"small": sweep(map_bjmd=((99, 95, 95), (99, 95, 90), (96, 94, 70)))}),
    ),
    "cat suffers": (
        verdicts.cat_versions_suffer,
        Evidence({}, {"small": sweep(cavi_catbjmd=(99, 98, 80))}),
        Evidence({}, {"small": sweep(cavi_catbjmd=(99, 98, 97))}),
    ),
    "real data": (
        verdicts.bjmd_is_similar_or_better_on_real_data,
        Evidence({"yale-b": shown(map_bjmd=[97, 93], jnmf=[94, 83], kmeans=[98, 60])}, {}),
        Evidence({"yale-b": shown(map_bjmd=[90, 80], jnmf=[94, 83], kmeans=[98, 60])}, {}),
    ),
    "feature test": (
        verdicts.the_feature_test_helps,
        Evidence({"metabric": shown(bnmf=[64, 66]), "metabric-filtered": shown(bnmf=[82, 80])}, {}),
        Evidence({"metabric": shown(bnmf=[64, 66]), "metabric-filtered": shown(bnmf=[62, 60])}, {}),
    ),
}


@pytest.mark.parametrize(("claim", "for_it", "against_it"), CASES.values(), ids=CASES)
def test_a_claim_can_hold_and_fail_and_be_untestable(claim, for_it, against_it):
    assert claim(for_it)[0] is True
    assert claim(against_it)[0] is False
    assert claim(Evidence({}, {})) is None


def test_the_table_says_each_of_the_three():
    evidence = Evidence({"small": shown(map_bjmd=[99, 90], map_catbjmd=[98, 80], jmd=[99.5, 80])}, {})
    table = verdicts.judge(evidence).set_index("claim")["verdict"]
    assert table[verdicts.telling_noise_apart_helps.__doc__] == "holds"
    assert table[verdicts.bjmd_beats_jmd_and_glad.__doc__] == "does not hold"
    assert table[verdicts.the_feature_test_helps.__doc__] == "cannot be tested here"

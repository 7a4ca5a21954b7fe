"""The page in a browser: tables sort and filter, the theme switches, and the points of a figure tell what they are."""

import json
import re
import shutil
import subprocess

import pandas as pd
import pytest

from bjmd.report import interactive, pages

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
HOSTILE = "</script><img src=x onerror=\"document.title='run'\">"


def answer(page, script, folder, *flags):
    """What a script that runs in the page when all is drawn returns."""
    probe = f"setTimeout(() => {{ document.title = 'done ' + JSON.stringify((() => {{ {script} }})()); }}, 200);"
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        "--window-size=1200,900", "--virtual-time-budget=2000", *flags, "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (found,) = re.findall(r"<title>done (.*?)</title>", dom, re.DOTALL)
    return json.loads(found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def test_tables_sort_by_number_or_name_and_filter_and_the_theme_follows_the_switch(tmp_path):
    values = ["1,200", "94.2 ± 0.3", "–", "-3", "7 %", "", "2e3", "+0.5", ".25"]
    cells = pd.DataFrame({"name": [f"x{i}" for i in range(10, 1, -1)], "value": values})
    found = answer(
        pages.page("title", [pages.table("label", cells)]),
        """
        const rows = () => [...document.querySelectorAll("tbody tr:not([hidden])")];
        const read = (column) => rows().map((row) => row.cells[column].textContent);
        const [name, value] = document.querySelectorAll("th button");
        const result = {};
        value.click(); result.up = read(1);
        value.click(); result.down = read(1);
        value.click(); result.back = read(1);
        name.click(); result.names = read(0);
        const filter = document.querySelector(".filter input");
        filter.value = "X1 %"; filter.dispatchEvent(new Event("input")); result.none = read(0);
        filter.value = "X1"; filter.dispatchEvent(new Event("input")); result.some = read(0);
        result.told = document.querySelector(".filter span").textContent;
        const colour = () => getComputedStyle(document.body).backgroundColor;
        result.before = colour(); document.querySelector(".theme").click(); result.after = colour();
        return result;
        """,
        tmp_path,
        "--blink-settings=preferredColorScheme=0",
    )
    up = ["-3", ".25", "+0.5", "7 %", "94.2 ± 0.3", "1,200", "2e3"]
    assert found["up"] == [*up, "–", ""], "cells without a value come last"
    assert found["down"] == [*up[::-1], "–", ""]
    assert found["back"] == values
    assert found["names"] == [f"x{i}" for i in range(2, 11)]
    assert found["none"] == [] and found["some"] == ["x10"] and found["told"] == "1 of 9 rows"
    assert found["before"] == "rgb(21, 24, 28)" and found["after"] == "rgb(255, 255, 255)"


def test_points_tell_their_name_class_and_values_and_names_are_text(tmp_path):
    pytest.importorskip("mpld3")
    data = {
        "names": [HOSTILE, "two", "three"], "sd": None,
        "axes": [["C1", [0.7, 0.1, 0.2]], ["C2", [0.2, 0.8, 0.1]], ["C3", [0.1, 0.1, 0.7]]],
        "groups": [["Class", [HOSTILE, "b"], [0, 1, 1]]],
        "map": {"x": [0, 1, -1], "y": [1, 0, 0], "corners": [["C1", 0, 1], ["C2", 1, 0], ["C3", -1, 0]]},
    }  # fmt: skip
    found = answer(
        pages.page("title", [pages.chart(data, HOSTILE, HOSTILE)], "", [interactive.d3(), pages.ours("scatter.js")]),
        """
        const svg = document.querySelector(".chart svg[role=img]");
        const points = [...svg.querySelectorAll(".points path")];
        const box = (point) => point.getBoundingClientRect();
        const middle = (point) => [box(point).x + box(point).width / 2, box(point).y + box(point).height / 2];
        const hover = ([x, y]) => svg.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
        const tip = () => [...document.querySelector(".tip").children].map((part) => part.textContent);
        const result = { images: document.images.length, legend: document.querySelector(".legend").textContent };
        hover(middle(points[0])); result.first = tip();
        hover([1, 1]); result.away = document.querySelector(".tip").style.display;
        const [across, up] = document.querySelectorAll(".chart select");
        across.value = "C2"; across.dispatchEvent(new Event("change"));
        result.up = up.value;
        const places = points.map(middle);
        result.order = [0, 1, 2].sort((a, b) => places[a][0] - places[b][0]);
        const apart = () => Math.abs(middle(points[0])[0] - middle(points[1])[0]);
        const before = apart();
        document.querySelector(".chart button[title='Zoom in']").click();
        result.zoom = apart() / before;
        const find = document.querySelector(".chart input");
        find.value = "TWO"; find.dispatchEvent(new Event("input"));
        result.faint = points.map((point) => point.classList.contains("faint"));
        return result;
        """,
        tmp_path,
    )
    assert found["images"] == 0 and found["legend"] == HOSTILE + "b"
    assert found["first"] == [HOSTILE, f"Class: {HOSTILE}", "C10.7", "C20.2", "C30.1"]
    assert found["away"] == "none"
    assert found["up"] == "C1", "one of all components leaves them both"
    assert found["order"] == [2, 0, 1], "by their values in C2"
    assert found["zoom"] == pytest.approx(1.5, abs=0.05)
    assert found["faint"] == [True, False, True]

// A switch between the themes, and tables that sort and filter.  The page reads well without any of it.
(() => {
  "use strict";

  const root = document.documentElement;
  const button = document.createElement("button");
  button.className = "theme";
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const ofSystem = () => (system.matches ? "dark" : "light");
  show(ofSystem());
  system.addEventListener("change", () => show(ofSystem()));
  button.addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));
  document.querySelector(".sheet").prepend(button);

  // a cell counts as a number if it begins with one: 1,234; 52.1 %; 94.2 ± 0.3; −0.5
  const number = (text) => {
    const found = text.replace(/,(?=\d{3})/g, "").replace("−", "-").match(/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?/i);
    return found ? Number(found[0]) : NaN;
  };
  const text = (row, column) => row.cells[column].textContent.trim();
  const without = (cell) => cell === "" || cell === "–";

  const sorter = (body, rows, heads, column) => () => {
    const head = heads[column];
    const before = head.getAttribute("aria-sort");
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    if (before === "descending") return body.append(...rows);  // the third click brings the first order back
    const sign = before === "ascending" ? -1 : 1;
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const filled = rows.map((row) => text(row, column)).filter((cell) => !without(cell));
    const numeric = filled.every((cell) => !Number.isNaN(number(cell)));
    const order = (a, b) => (numeric ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true }));
    const sorted = rows.map((row) => [text(row, column), row]);
    sorted.sort(([a], [b]) => without(a) - without(b) || (without(a) ? 0 : sign * order(a, b)));
    return body.append(...sorted.map(([, row]) => row));
  };

  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length < 3) continue;
    const heads = [...table.tHead.rows].at(-1).cells;
    [...heads].forEach((head, column) => {
      const press = document.createElement("button");
      press.textContent = head.textContent;
      press.title = "Sort by this column";
      press.addEventListener("click", sorter(body, rows, [...heads], column));
      head.replaceChildren(press);
    });
    if (rows.length < 9 || table.querySelector(".heat")) continue;
    const bar = document.createElement("div");
    const input = document.createElement("input");
    const count = document.createElement("span");
    bar.className = "filter";
    input.type = "search";
    input.placeholder = "Filter rows";
    input.setAttribute("aria-label", "Filter the rows of this table");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      const fits = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
      rows.forEach((row) => { row.hidden = !fits(row); });
      count.textContent = input.value ? rows.filter((row) => !row.hidden).length + " of " + rows.length + " rows" : "";
    });
    bar.append(input, count);
    table.closest(".wide").before(bar);
  }
})();

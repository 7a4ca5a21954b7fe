// Interactive figures: points to hover over, to find and to zoom in on, with a choice of axes and colours.
//
// Each figure holds its data as JSON: names of the points, `axes` [[label, values]], `sd` of the values or null,
// `groups` [[label, levels, codes]] to colour by, and `map`, which places all axes at once, or null.  Names go into the
// page as text only, by d3's .text().
(() => {
  "use strict";
  const ALL = "all components";
  const SHAPES = [d3.symbolCircle, d3.symbolSquare, d3.symbolDiamond, d3.symbolTriangle, d3.symbolCross, d3.symbolWye];
  const COLOURS = 8;
  const NEAR = 24;  // pixels from the pointer to the point that it shows
  const MOST_IN_LEGEND = 24;

  const colour = (code) => "var(--c" + (code % COLOURS) + ")";
  const shape = (code, size) => d3.symbol(SHAPES[Math.floor(code / COLOURS) % SHAPES.length], size)();
  const nice = d3.format(".3~g");

  function draw(figure, id) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const root = d3.select(figure).classed("drawn", true);
    const controls = root.insert("div", "figcaption").attr("class", "controls");
    const svg = root.insert("svg", "figcaption").attr("role", "img").attr("aria-label", root.attr("aria-label"));
    const legend = root.insert("ul", "figcaption").attr("class", "legend");
    const tip = root.append("div").attr("class", "tip").style("display", "none");
    const axes = new Map(data.axes);
    const choices = [...(data.map ? [ALL] : []), ...axes.keys()];

    function choice(label, options, chosen, changed) {
      const select = controls.append("label").text(label + " ").append("select").on("change", changed);
      select.selectAll("option").data(options).enter().append("option").attr("value", (d) => d).text((d) => d);
      return select.property("value", chosen).node();
    }
    const across = choice("Across", choices, choices[0], () => chosen(across, up));
    const up = choice("Up", choices, choices[data.map ? 0 : 1], () => chosen(up, across));
    const by = choice("Colour", data.groups.map(([label]) => label), data.groups[0][0], () => restyle());
    const find = controls.append("input").attr("type", "search").attr("placeholder", "Find by name");
    find.attr("aria-label", "Find points by name").on("input", () => restyle());
    const found = controls.append("span");
    for (const [label, title, press] of [
      ["+", "Zoom in", () => zoom.scaleBy(svg, 1.5)],
      ["−", "Zoom out", () => zoom.scaleBy(svg, 1 / 1.5)],
      ["Reset", "Show everything", () => zoom.transform(svg, d3.zoomIdentity)],
    ]) controls.append("button").attr("type", "button").attr("title", title).text(label).on("click", press);

    const clip = svg.append("clipPath").attr("id", id).append("rect");
    const xAxis = svg.append("g");
    const yAxis = svg.append("g");
    const xLabel = svg.append("text").attr("text-anchor", "end");
    const yLabel = svg.append("text").attr("x", 4).attr("y", 14);
    const inside = svg.append("g").attr("clip-path", "url(#" + id + ")");
    const guide = inside.append("path").attr("class", "guide");
    const marks = inside.append("g").attr("class", "points").selectAll("path").data(data.names).enter().append("path");
    const corners = inside.selectAll("text").data(data.map ? data.map.corners : []).enter().append("text");
    corners.attr("class", "corner").text(([label]) => label);

    const x = d3.scaleLinear();
    const y = d3.scaleLinear();
    // the wheel scrolls the page unless a key is held; one finger scrolls it too, two zoom
    const zoom = d3.zoom().scaleExtent([1, 60]).on("zoom", place).filter(() => {
      const event = d3.event;
      if (event.type === "wheel") return event.ctrlKey || event.metaKey || event.shiftKey;
      return event.touches ? event.touches.length > 1 : !event.button;
    });
    svg.call(zoom);
    let shown = { x: [], y: [] };  // values of the axes
    let places = [];  // of the points, in pixels

    const mapped = () => across.value === ALL && up.value === ALL;
    function chosen(changed, other) {  // all components take both axes
      if (changed.value === ALL) other.value = ALL;
      else if (other.value === ALL) other.value = [...axes.keys()].find((key) => key !== changed.value);
      zoom.transform(svg, d3.zoomIdentity);
      layout();
    }

    function layout() {
      const width = Math.max(figure.clientWidth - 24, 200);
      const height = Math.min(480, Math.max(300, 0.6 * width));
      const edge = mapped() ? { left: 8, right: 8, top: 8, bottom: 8 } : { left: 48, right: 12, top: 24, bottom: 40 };
      const [wide, high] = [width - edge.left - edge.right, height - edge.top - edge.bottom];
      svg.attr("viewBox", [0, 0, width, height].join(" ")).attr("height", height);
      x.range([edge.left, width - edge.right]);
      y.range([height - edge.bottom, edge.top]);
      zoom.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
      shown = mapped() ? data.map : { x: axes.get(across.value), y: axes.get(up.value) };
      for (const [scale, values, long] of [[x, shown.x, wide], [y, shown.y, high]]) {
        const reach = (1.25 * long) / Math.min(wide, high);  // of the map, which has one unit for both axes
        const [least, most] = d3.extent(values);
        const room = 0.04 * (most - least || 1);
        scale.domain(mapped() ? [-reach, reach] : [least - room, most + room]);
      }
      clip.attr("x", edge.left).attr("y", edge.top).attr("width", wide).attr("height", high);
      xAxis.attr("transform", "translate(0," + (height - edge.bottom) + ")");
      yAxis.attr("transform", "translate(" + edge.left + ",0)");
      xLabel.attr("x", width - edge.right).attr("y", height - 6).text(mapped() ? "" : across.value + " →");
      yLabel.text(mapped() ? "" : "↑ " + up.value);
      for (const axis of [xAxis, yAxis]) axis.style("display", mapped() ? "none" : null);
      corners.style("display", mapped() ? null : "none");
      place();
    }

    function place() {
      const now = d3.zoomTransform(svg.node());
      const [zx, zy] = [now.rescaleX(x), now.rescaleY(y)];
      places = data.names.map((_, i) => [zx(shown.x[i]), zy(shown.y[i])]);
      marks.attr("transform", (_, i) => "translate(" + places[i].map((at) => at.toFixed(1)).join(",") + ")");
      xAxis.call(d3.axisBottom(zx).ticks(6));
      yAxis.call(d3.axisLeft(zy).ticks(6));
      const line = mapped()
        ? data.map.corners.map(([, cx, cy]) => [zx(cx), zy(cy)])
        : [Math.max(x.domain()[0], y.domain()[0]), Math.min(x.domain()[1], y.domain()[1])].map((v) => [zx(v), zy(v)]);
      guide.attr("d", data.map && !mapped() ? null : "M" + line.join("L") + (mapped() ? "Z" : ""));
      corners.attr("transform", ([, cx, cy]) => "translate(" + zx(1.12 * cx) + "," + zy(1.12 * cy) + ")");
      tip.style("display", "none");
    }

    function restyle() {
      const [, levels, codes] = data.groups.find(([label]) => label === by.value);
      const size = data.names.length > 800 ? 26 : 50;
      const sought = find.property("value").toLowerCase();
      const fits = data.names.map((name) => name.toLowerCase().includes(sought));
      marks.attr("d", (_, i) => shape(codes[i], size)).style("--colour", (_, i) => colour(codes[i]));
      marks.classed("faint", (_, i) => !fits[i]);
      found.text(sought ? fits.filter(Boolean).length + " found" : "");
      const entries = levels.slice(0, MOST_IN_LEGEND);
      legend.selectAll("li").remove();
      const items = legend.selectAll("li").data(entries).enter().append("li").style("--colour", (_, i) => colour(i));
      items.append("svg").attr("viewBox", "-6 -6 12 12").append("path").attr("d", (_, i) => shape(i, 60));
      items.append("span").text((d) => d);
      if (levels.length > entries.length) legend.append("li").text("and " + (levels.length - entries.length) + " more");
    }

    function tell(i) {
      const values = data.axes.map(([label, all], k) => ({ label, value: all[i], sd: data.sd && data.sd[k][i] }));
      const top = values.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 6);
      tip.text("").append("b").text(data.names[i]);
      for (const [label, levels, codes] of data.groups) tip.append("div").text(label + ": " + levels[codes[i]]);
      const bars = tip.selectAll(".bar").data(top).enter().append("div").attr("class", "bar");
      bars.append("span").text((d) => d.label);
      bars.append("i").style("width", (d) => (100 * Math.abs(d.value)) / Math.abs(top[0].value || 1) + "%");
      bars.append("span").text((d) => nice(d.value) + (d.sd ? " ± " + nice(d.sd) : ""));
      if (values.length > top.length) tip.append("div").text("and " + (values.length - top.length) + " more");
    }

    function hover(event) {
      const box = svg.node().getBoundingClientRect();
      const at = [event.clientX - box.left, event.clientY - box.top];
      const distances = places.map((place) => Math.hypot(place[0] - at[0], place[1] - at[1]));
      const nearest = d3.scan(distances);
      const near = distances[nearest] <= NEAR;
      marks.classed("near", (_, i) => near && i === nearest);
      tip.style("display", near ? null : "none");
      if (!near) return;
      tell(nearest);
      const outer = figure.getBoundingClientRect();
      const { offsetWidth: w, offsetHeight: h } = tip.node();
      const left = event.clientX - outer.left + (event.clientX + w + 32 < outer.right ? 16 : -w - 16);
      const top = Math.min(event.clientY - outer.top + 16, outer.height - h - 4);
      tip.style("left", Math.max(4, Math.min(left, outer.width - w - 4)) + "px").style("top", top + "px");
    }
    svg.on("pointermove pointerdown", () => hover(d3.event));
    svg.on("pointerleave", () => { marks.classed("near", false); tip.style("display", "none"); });

    restyle();
    layout();
    new ResizeObserver(layout).observe(figure);
  }

  document.querySelectorAll(".chart").forEach((figure, i) => draw(figure, "chart-" + i));
})();

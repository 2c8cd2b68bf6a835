"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  // Plotly reads a few HTML tags in labels; names are shown as they are
  const literal = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const faded = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
  // one trial has no interval, and a few have a range
  const between = (low, high, digits, isRange) => {
    if (low === null) return "";
    const ends = [low, high].map((end) => end.toFixed(digits));
    return isRange ? ` (range ${ends.join(" to ")})` : ` [${ends.join(", ")}]`;
  };
  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  const chosenOr = (name, otherwise) => (document.querySelector(`input[name="${name}"]`) ? chosen(name) : otherwise);
  const charts = []; // functions that draw, called again when the colours or the paper change
  let printing = false;

  function draw(id, traces, layout) {
    const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, autosize: true,
      font: { color: colour("ink"), family: "system-ui, sans-serif", size: 13 },
      margin: { l: 8, r: 12, t: 12, b: 8 }, dragmode: false,
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink"), size: 12.5 }, align: "left", namelength: -1 },
      ...layout, xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    };
    if (printing) Object.assign(base, { width: 680, autosize: false });
    return Plotly.react(id, traces, base, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  }

  function show(chart) { charts.push(chart); chart(); }

  function onChoice(name, action) {
    for (const input of document.querySelectorAll(`input[name="${name}"]`)) input.addEventListener("change", action);
  }

  // A legend of real buttons: it wraps on a phone and can be reached with the keyboard.
  function legend(id, items, redraw) {
    const hidden = new Set();
    for (const item of items) {
      const button = document.createElement("button");
      const swatch = document.createElement("i");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      swatch.className = "swatch";
      swatch.dataset.colour = item.colour ?? item.algorithm;
      button.append(swatch, item.label);
      button.addEventListener("click", () => {
        const off = hidden.delete(item) ? false : Boolean(hidden.add(item));
        button.setAttribute("aria-pressed", String(!off));
        redraw();
      });
      byId(id).append(button);
    }
    return hidden;
  }

  function paintSwatches() {
    for (const swatch of document.querySelectorAll(".swatch")) swatch.style.background = colour(swatch.dataset.colour);
  }

  // --- results ------------------------------------------------------------------------------------------------------

  function results() {
    const first = Object.keys(data.results)[0].split(" "); // a number of episodes or a game; or a task and a measure
    const place = chosenOr("budget", first[0]);
    const { rows, digits } = data.results[first.length > 1 ? `${place} ${chosenOr("measure", first[1])}` : place];
    const point = (row, place) => ({
      type: "scatter", mode: "markers", x: [row.mean], y: [place - (row.paper === null ? 0 : 0.13)], name: literal(row.label),
      marker: { color: colour(row.colour), size: 11 },
      error_x: row.low === null ? undefined : { type: "data", symmetric: false, array: [row.high - row.mean], arrayminus: [row.mean - row.low], color: colour(row.colour), thickness: 2.2, width: 5 },
      customdata: [between(row.low, row.high, digits, row.range)],
      hovertemplate: `%{x:.${digits}f}%{customdata}, n = ${row.n}<extra>%{fullData.name}</extra>`,
    });
    const papers = rows.map((row, place) => ({ ...row, place })).filter((row) => row.paper !== null);
    const paper = {
      type: "scatter", mode: "markers", name: "paper", x: papers.map((row) => row.paper), y: papers.map((row) => row.place + 0.19),
      marker: { symbol: "diamond-open", size: 8, color: colour("soft") },
      error_x: { type: "data", array: papers.map((row) => row.spread), color: colour("soft"), thickness: 1.1, width: 3 },
      customdata: papers.map((row) => (row.spread === null ? "" : ` ± ${row.spread}`)),
      hovertemplate: "%{x}%{customdata}<extra>paper</extra>",
    };
    return draw("results-chart", [...rows.map(point), paper], {
      height: 70 + 52 * rows.length, hovermode: "closest",
      xaxis: { title: { text: `Mean ${data.value}` }, fixedrange: true, zeroline: false },
      yaxis: { tickvals: rows.map((_, place) => place), ticktext: rows.map((row) => wrapped(row.label)), range: [rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false },
    });
  }

  function wrapped(label) {
    const short = label.length > 46 ? `${label.slice(0, 22)}…${label.slice(-22)}` : label;
    const space = short.lastIndexOf(" ", 24);
    const cut = space > 8 ? space : 24;
    return short.length > 24 ? `${literal(short.slice(0, cut))}<br>${literal(short.slice(cut))}` : literal(short);
  }

  // --- learning curves ----------------------------------------------------------------------------------------------

  const keys = [...new Set(data.tasks.flatMap((task) => task.lines.flatMap((line) => Object.keys(line.curves))))];
  const inGroup = (panel) => {
    const group = chosenOr("group", null);
    return group ? { ...panel, lines: panel.lines.filter((line) => line.groups.includes(group)) } : panel;
  };
  const task = () => inGroup(data.tasks[Number(chosenOr("game", 0))]);
  const kind = () => chosenOr("kind", keys[0].slice(0, keys[0].lastIndexOf(" ")));
  const unit = () => chosenOr("unit", keys[0].slice(keys[0].lastIndexOf(" ") + 1));
  const curveOf = (line) => line.curves[`${kind()} ${unit()}`]; // a run may have no curve by steps, or of evaluations
  const ends = () => task().lines.filter(curveOf).map((line) => curveOf(line).end);
  const longest = () => Math.max(1, ...ends());
  let range = [1, 1];
  let hiddenLines = new Set();

  const shownLines = () => task().lines.filter((line) => !hiddenLines.has(line) && curveOf(line));

  function bandOf(line) {
    const curve = curveOf(line);
    const name = chosen("centre");
    const centre = curve[name];
    if (chosen("band") === "interval") return { x: curve.x, centre, low: curve[`${name}_low`], high: curve[`${name}_high`], isRange: curve.range };
    // no band goes beyond what was seen
    const away = (sign) => centre.map((value, i) => (curve.sd[i] === null ? null : Math.min(curve.largest[i], Math.max(curve.smallest[i], value + sign * curve.sd[i]))));
    return { x: curve.x, centre, low: away(-1), high: away(1), isRange: false };
  }

  function curves() {
    const shown = shownLines();
    const { digits, references } = task();
    const bands = shown.flatMap((line) => {
      const { x, low, high } = bandOf(line);
      const edge = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip" };
      return [{ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(colour(line.colour), 0.18) }];
    });
    const middles = shown.map((line) => {
      const { x, centre, low, high, isRange } = bandOf(line);
      return {
        type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y: centre, name: literal(line.label),
        line: { color: colour(line.colour), width: line.colour === "mac" ? 3 : 2, dash: line.dash },
        customdata: low.map((value, i) => between(value, high[i], digits, isRange)),
        hovertemplate: `%{y:.${digits}f}%{customdata}<extra>%{fullData.name}</extra>`,
      };
    });
    readOut();
    task().lines.forEach((line, i) => { byId("curves-legend").children[i].disabled = !curveOf(line); });
    const word = unit() === "steps" ? "Step" : "Episode";
    return draw("curves-chart", [...bands, ...middles], {
      height: innerWidth < 600 ? 340 : 460, hovermode: "x unified", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: { title: { text: word }, range: [...range], zeroline: false, unifiedhovertitle: { text: `${word} %{x}` } },
      yaxis: { title: { text: data.value === "score" ? "Score" : "Return" }, fixedrange: true, zeroline: false },
      shapes: references.map(({ algorithm, score }) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: score, y1: score, line: { color: colour(algorithm ?? "soft"), width: 1, dash: algorithm ? "dot" : "dash" } })),
      annotations: (innerWidth < 600 ? [] : references).map(({ label, score }, i) => ({ xref: "paper", x: 1 - 0.24 * i, xanchor: "right", y: score, yanchor: "bottom", showarrow: false, text: literal(label), font: { size: 11, color: colour("soft") } })),
    });
  }

  // What the pointer shows, for those who do not use one.
  function readOut() {
    const at = Number(byId("at").value);
    const { digits } = task();
    const words = shownLines().filter((line) => at <= curveOf(line).end).map((line) => {
      const { x, centre, low, high, isRange } = bandOf(line);
      const nearest = x.reduce((best, place, i) => (Math.abs(place - at) < Math.abs(x[best] - at) ? i : best), 0);
      return `${line.label} ${centre[nearest].toFixed(digits)}${between(low[nearest], high[nearest], digits, isRange)}`;
    });
    byId("values").textContent = words.join(" · ");
  }

  function setRange(from, to) {
    const whole = (value, otherwise) => (Number.isFinite(value) ? Math.min(longest(), Math.max(1, Math.round(value))) : otherwise);
    const [first, last] = [whole(from, 1), whole(to, longest())];
    if (first >= last && longest() > 1) return;
    range = [first, last];
    byId("from").value = first;
    byId("to").value = last;
  }

  // The numbers beside the chart count what its axis counts.
  function setUnit() {
    const [range, at] = document.querySelectorAll(".unit");
    range.textContent = unit() === "steps" ? "Steps" : "Episodes";
    at.textContent = unit() === "steps" ? "step" : "episode";
    for (const id of ["from", "to", "at"]) byId(id).max = longest();
    byId("at").value = Math.min(...ends()); // where all lines still have a value
    setRange(1, longest());
  }

  // Evaluations are counted in one unit only: what is not there cannot be chosen.
  function setKind() {
    const units = [...document.querySelectorAll("input[name=unit]")];
    for (const input of units) input.disabled = !keys.includes(`${kind()} ${input.value}`);
    const first = units.find((input) => !input.disabled);
    if (first && units.some((input) => input.checked && input.disabled)) first.checked = true;
  }

  function setTask() {
    byId("curves-legend").replaceChildren();
    hiddenLines = legend("curves-legend", task().lines, () => curves());
    paintSwatches();
  }

  function startCurves() {
    setTask();
    for (const name of ["game", "group"]) onChoice(name, () => { setTask(); setUnit(); curves(); });
    onChoice("kind", () => { setKind(); setUnit(); curves(); });
    onChoice("unit", () => { setUnit(); curves(); });
    onChoice("centre", curves);
    onChoice("band", curves);
    for (const id of ["from", "to"]) byId(id).addEventListener("change", () => { setRange(Number(byId("from").value), Number(byId("to").value)); curves(); });
    byId("whole").addEventListener("click", () => { setRange(1, longest()); curves(); });
    byId("at").addEventListener("change", () => curves());
    setKind(); // browsers may remember what was chosen on an earlier visit
    setUnit();
    show(curves);
    byId("curves-chart").on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] !== undefined) setRange(change["xaxis.range[0]"], change["xaxis.range[1]"]);
      if (change["xaxis.autorange"]) { setRange(1, longest()); curves(); }
    });
  }

  // A small chart for each task: what is chosen for the large one.
  function tiles() {
    data.tasks.map(inGroup).forEach(({ lines, references, digits }, place) => {
      draw(`tile-${place}`, lines.filter(curveOf).map((line) => {
        const { x, centre } = bandOf(line);
        return {
          type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y: centre, name: literal(line.label),
          line: { color: colour(line.colour), width: line.colour === "mac" ? 2.6 : 1.6, dash: line.dash },
          hovertemplate: `%{x}: %{y:.${digits}f}<extra>%{fullData.name}</extra>`,
        };
      }), {
        height: 210, hovermode: "closest", xaxis: { fixedrange: true, zeroline: false, nticks: 5 }, yaxis: { fixedrange: true, zeroline: false, nticks: 5 },
        shapes: references.map(({ score }) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: score, y1: score, line: { color: colour("soft"), width: 1, dash: "dash" } })),
      });
    });
  }

  function startTiles() {
    for (const name of ["group", "kind", "centre"]) onChoice(name, tiles);
    show(tiles);
  }

  // --- searches -----------------------------------------------------------------------------------------------------

  function startSearch(search, number) {
    const [low, high] = search.range;
    const digits = search.digits;

    function map() {
      const heat = search.maps[chosen(`map-${number}`)];
      const hover = heat.score.map((row, i) => row.map((score, j) => (score === null ? "" :
        `${literal(`${heat.rows[i]}, ${heat.optimizers[j]} ${heat.rates[j]}`)}<br>${score.toFixed(digits)}` +
        `${heat.sd[i][j] === null ? "" : ` ± ${heat.sd[i][j].toFixed(digits)}`}, ${heat.trials[i][j]} trials of ${heat.episodes[i][j]} episodes` +
        `${heat.diverged[i][j] ? `<br>${heat.diverged[i][j]} diverged` : ""}`)));
      const starts = heat.optimizers.map((_, j) => j).filter((j) => j === 0 || heat.optimizers[j] !== heat.optimizers[j - 1]);
      const ends = [...starts.slice(1), heat.optimizers.length];
      return draw(`map-chart-${number}`, [{
        type: "heatmap", z: heat.score, zmin: low, zmax: high, colorscale: "Viridis", text: hover, hoverongaps: false,
        hovertemplate: "%{text}<extra></extra>", xgap: 1, ygap: 1, colorbar: { thickness: 12, outlinewidth: 0, title: { text: "Score", side: "right" } },
      }], {
        height: Math.min(1600, 130 + 15 * heat.rows.length),
        margin: { l: 8, r: 8, t: 34, b: 8 },
        xaxis: { tickvals: heat.rates.map((_, j) => j), ticktext: heat.rates.map(literal), tickangle: -90, tickfont: { size: 10.5 }, showgrid: false, fixedrange: true, title: { text: "Learning rate" } },
        yaxis: { tickvals: heat.rows.map((_, i) => i), ticktext: heat.rows.map(literal), tickfont: { size: 10.5 }, autorange: "reversed", showgrid: false, fixedrange: true },
        annotations: starts.map((start, k) => ({ x: (start + ends[k] - 1) / 2, y: 1, yref: "paper", yanchor: "bottom", showarrow: false, text: `<b>${literal(heat.optimizers[start])}</b>` })),
        shapes: starts.slice(1).map((start) => ({ type: "line", x0: start - 0.5, x1: start - 0.5, y0: 0, y1: 1, yref: "paper", line: { color: colour("paper"), width: 4 } })),
      });
    }

    let hidden = new Set();
    function shares() {
      return draw(`shares-chart-${number}`, search.shares.filter((line) => !hidden.has(line)).map((line) => ({
        type: "scatter", mode: "lines", x: line.score, y: line.share, name: line.label,
        line: { shape: "vh", color: colour(line.algorithm), width: line.algorithm === "mac" ? 3 : 2 },
        hovertemplate: `%{y:.0%} reach %{x:.${digits}f}<extra>%{fullData.name}</extra>`,
      })), {
        height: innerWidth < 600 ? 320 : 400, hovermode: "closest",
        xaxis: { title: { text: "Score" }, fixedrange: true, zeroline: false },
        yaxis: { title: { text: "Share of settings" }, tickformat: ".0%", range: [0, 1.03], fixedrange: true, zeroline: false },
      });
    }

    hidden = legend(`shares-legend-${number}`, search.shares, shares);
    onChoice(`map-${number}`, map);
    show(map);
    show(shares);
  }

  // --- theory -------------------------------------------------------------------------------------------------------

  function startTheory(theory, number) {
    const measured = (parts) => theory.estimators.filter((item) => parts[item.algorithm]); // in this trial, for this batch
    const optional = (name, otherwise) => (document.querySelector(`input[name="${name}-${number}"]`) ? chosen(`${name}-${number}`) : otherwise);
    const trial = () => theory.trials[Number(optional("theory-trial", 0))];
    const batch = () => chosen(`theory-batch-${number}`);
    let hidden = new Set();

    function variance() {
      const lines = trial().variance[batch()];
      return draw(`theory-variance-${number}`, measured(lines).filter((item) => !hidden.has(item)).map(({ algorithm, label }) => {
        const numbers = lines[algorithm];
        return {
          type: "scatter", mode: "lines+markers", name: label, x: trial().episode, y: numbers.map((n) => n[0]),
          line: { color: colour(algorithm), width: algorithm === "mac" ? 3 : 2 }, marker: { size: 7 },
          error_y: { type: "data", symmetric: false, array: numbers.map((n) => n[2] - n[0]), arrayminus: numbers.map((n) => n[0] - n[1]), color: colour(algorithm), thickness: 1.4, width: 4 },
          customdata: numbers, hovertemplate: "%{customdata[0]:.3g} [%{customdata[1]:.3g}, %{customdata[2]:.3g}]<extra>%{fullData.name}</extra>",
        };
      }), {
        height: innerWidth < 600 ? 340 : 440, hovermode: "x unified",
        xaxis: { title: { text: "Episode of training" }, fixedrange: true, zeroline: false, tickvals: innerWidth < 600 ? undefined : trial().episode, unifiedhovertitle: { text: "After episode %{x}" } },
        yaxis: { title: { text: "Variance" }, type: "log", exponentformat: "power", dtick: innerWidth < 600 ? 2 : 1, fixedrange: true },
      });
    }

    function sources() {
      const moment = Number(chosen(`theory-moment-${number}`));
      const shares = trial().sources[batch()];
      const items = measured(shares);
      return draw(`theory-sources-${number}`, theory.parts.map(({ part, label }, i) => ({
        type: "bar", orientation: "h", name: label, y: items.map((_, place) => place), x: items.map((item) => shares[item.algorithm][moment][i]),
        marker: { color: colour(part) }, hovertemplate: "%{x:.1%}<extra>%{fullData.name}</extra>",
      })), {
        barmode: "relative", bargap: 0.35, height: 90 + 46 * items.length, hovermode: "y unified",
        xaxis: { title: { text: "Share of the variance" }, tickformat: ".0%", fixedrange: true, zeroline: true, zerolinecolor: colour("soft"), zerolinewidth: 2 },
        yaxis: { tickvals: items.map((_, place) => place), ticktext: items.map((item) => item.label), autorange: "reversed", fixedrange: true, showgrid: false, zeroline: false },
      });
    }

    function entropy() {
      const what = chosen(`theory-saving-${number}`);
      const curves = theory.curves.map((curve) => ({
        type: "scatter", mode: "lines+markers", name: curve.label, x: curve.entropy, y: curve[what],
        line: { color: colour(curve.estimator), dash: curve.actions === 2 ? "solid" : "dash", width: 2 }, marker: { size: 6 },
        hovertemplate: "%{y:.0%} at %{x:.0%} of the entropy<extra>%{fullData.name}</extra>",
      }));
      const points = what === "saved" ? theory.points.filter((set) => set.entropy.length).map((set) => ({
        type: "scatter", mode: "markers", name: set.label, x: set.entropy, y: set.saved,
        marker: { symbol: "diamond", size: 9, color: colour(set.estimator), line: { color: colour("ink"), width: 1 } },
        hovertemplate: "%{y:.0%} at %{x:.0%} of the entropy<extra>%{fullData.name}</extra>",
      })) : [];
      return draw(`theory-entropy-${number}`, [...curves, ...points], {
        height: innerWidth < 600 ? 430 : 440, hovermode: "closest", showlegend: true,
        legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 12 } },
        xaxis: { title: { text: "Entropy, of the most possible" }, tickformat: ".0%", range: [-0.02, 1.02], fixedrange: true, zeroline: false },
        yaxis: { title: { text: what === "amount" ? "Saved, of the most" : "Share saved" }, tickformat: ".0%", range: [-0.03, 1.06], fixedrange: true, zeroline: false },
      });
    }

    if (theory.trials.length) {
      hidden = legend(`theory-legend-${number}`, theory.estimators, variance);
      for (const { part, label } of theory.parts) {
        const key = document.createElement("span");
        const swatch = document.createElement("i");
        key.className = "key";
        swatch.className = "swatch";
        swatch.dataset.colour = part;
        key.append(swatch, label);
        byId(`theory-parts-${number}`).append(key);
      }
      for (const name of ["theory-trial", "theory-batch"]) onChoice(`${name}-${number}`, () => { variance(); sources(); });
      onChoice(`theory-moment-${number}`, sources);
      show(variance);
      show(sources);
    }
    if (theory.curves.length) {
      onChoice(`theory-saving-${number}`, entropy);
      show(entropy);
    }
  }

  // --- the whole page -----------------------------------------------------------------------------------------------

  function everything() {
    paintSwatches();
    for (const chart of charts) chart();
  }

  if (task().lines.length) {
    for (const name of ["budget", "measure"]) onChoice(name, results);
    show(results);
    startCurves();
    if (byId("tasks")) startTiles();
  }
  data.searches.forEach((search, i) => startSearch(search, i + 1));
  data.theories.forEach((theory, i) => startTheory(theory, i + 1));
  paintSwatches();
  dark.addEventListener("change", everything);
  for (const event of ["beforeprint", "afterprint"]) {
    addEventListener(event, () => {
      printing = event === "beforeprint";
      document.documentElement.classList.toggle("printing", printing); // light, whatever the screen has
      everything();
    });
  }
})();

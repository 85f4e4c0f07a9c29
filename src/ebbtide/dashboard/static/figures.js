// From a view to what Plotly draws: each figure is a function of the view and the theme.
"use strict";

Ebbtide.figures = (() => {
  const { number, count, value, span, plain } = Ebbtide.format;
  const { theme, translucent, isWall, moments, axis, logAxis, STEPS, DURATIONS, timeAxis, stretch, frame } =
    Ebbtide.axes;
  const { hasKinds, cycle } = Ebbtide.words;
  const { plusMinus, where, describe, when, marks, dots, filled, hollow } = Ebbtide.marks;
  const BAND = 2; // deviations to each side of a mean

  function objective(view) {
    const colours = theme(),
      told = view.observations;
    const active = where(told.value, (y, i) => y !== null && told.active[i]);
    const removed = where(told.value, (y, i) => y !== null && !told.active[i]);
    const failed = where(told.value, (y, i) => y === null && !told.abandoned[i]);
    const abandoned = where(told.abandoned, (called) => called);
    const data = [];
    if (view.model) {
      const { time, mean, std } = view.model.prediction,
        x = moments(view, time);
      const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      data.push({ ...band, y: mean.map((m, i) => m - BAND * std[i]) });
      data.push({
        ...band,
        y: mean.map((m, i) => m + BAND * std[i]),
        fill: "tonexty",
        fillcolor: translucent(colours.accent, 0.16),
      });
    }
    data.push(marks(view, colours, removed, told.value, "removed", hollow(colours, told, removed)));
    data.push(marks(view, colours, active, told.value, "active", filled(colours, told, active)));
    data.push(...atTheBottom(view, colours, failed, "failed", "line-ns"));
    data.push(...atTheBottom(view, colours, abandoned, "abandoned", "circle-open"));
    if (view.model) {
      const { time, mean, std } = view.model.prediction,
        best = view.model.recommendation;
      data.push({
        x: moments(view, time),
        y: mean,
        mode: "lines",
        name: `model, ±${BAND} deviations`,
        line: { color: colours.accent, width: 2 },
        text: mean.map(
          (m, i) =>
            `<b>${plusMinus(m, std[i])}</b><br>${when(view, time[i])}<br>by the model, at the current recommendation`,
        ),
        hoverinfo: "text",
      });
      data.push({
        x: moments(view, [best.time]),
        y: [best.mean],
        mode: "markers",
        name: "recommended now",
        error_y: { type: "data", array: [BAND * best.std], color: colours.accent, thickness: 1.5, width: 4 },
        marker: { symbol: "diamond", size: 10, color: colours.accent, line: { width: 1.5, color: colours.paper } },
        text: [`<b>${plusMinus(best.mean, best.std)}</b><br>recommended now`],
        hoverinfo: "text",
      });
    }
    const layout = frame(
      view,
      colours,
      timeAxis(view, colours, { range: stretch(view) }),
      axis(colours, "value told", { exponentformat: "power" }),
      { yaxis2: { overlaying: "y", range: [0, 1], fixedrange: true, visible: false } },
    );
    const latest = told.value.filter((y) => y !== null).at(-1);
    const label =
      `${count(active.length)} active and ${count(removed.length)} removed observations over time; the newest is ${number(latest)}.` +
      (view.model ? ` The model expects ${number(view.model.recommendation.mean)} at the current recommendation.` : "");
    const kept = view.stride > 1 ? ` Of the removed ones, one in ${count(view.stride)} is drawn.` : "";
    const caption =
      (view.model
        ? `Line: the model at the current recommendation${view.study.context ? " and in the context measured last" : ""}, over time.`
        : "") +
      kept;
    const keys = [
      ...kindKeys(view),
      ...(failed.length ? [["tick", "failed"]] : []),
      ...(abandoned.length ? [["ring", "abandoned"]] : []),
      ...(view.model
        ? [
            ["line", `model, ±${BAND} deviations`],
            ["diamond", "recommended now"],
          ]
        : []),
    ];
    return { data, layout, label, caption, keys };
  }

  // What has no value has no height.
  function atTheBottom(view, colours, at, name, symbol) {
    if (!at.length) return [];
    const level = view.observations.line.map(() => 0.02),
      marker = { symbol, size: 7, color: colours.faint, line: { width: 1, color: colours.faint } };
    return [{ ...marks(view, colours, at, level, name, marker), yaxis: "y2" }];
  }

  // The marks of what has a value: by kind, if there is more than one.
  function kindKeys(view) {
    const seen = new Set(view.observations.kind);
    if (!hasKinds(view))
      return [
        ["cross", "removed"],
        ["dot", "active"],
      ];
    return [
      ["dot", seen.has(null) ? "probe, or measured elsewhere" : "probe"],
      ...(seen.has("hold") ? [["square", "hold"]] : []),
      ...(seen.has("start") ? [["triangle", "start"]] : []),
      ...(seen.has("baseline") ? [["star", "baseline"]] : []),
      ["cross", "removed probe"],
      ["hollow", "any other, removed"],
    ];
  }

  function size(view) {
    const colours = theme(),
      { time, active, removed } = view.asks,
      x = moments(view, time);
    const hover = time.map(
      (t, i) =>
        `<b>${count(active[i])}</b> active<br>${count(removed[i])} removed since the previous point<br>${when(view, t)}`,
    );
    const data = [
      { type: "bar", x, y: removed, name: "removed", marker: { color: colours.faint }, hoverinfo: "skip", yaxis: "y2" },
      {
        x,
        y: active,
        mode: "lines",
        name: "active",
        line: { color: colours.accent, width: 2, shape: "hv" },
        text: hover,
        hoverinfo: "text",
      },
    ];
    const most = Math.max(1, ...removed);
    const layout = frame(
      view,
      colours,
      timeAxis(view, colours, { range: stretch(view) }),
      axis(colours, "active observations", { rangemode: "tozero" }),
      {
        bargap: 0.1,
        yaxis2: axis(colours, "removed", {
          overlaying: "y",
          side: "right",
          showgrid: false,
          range: [0, 4 * most],
          tickvals: [0, most],
        }),
      },
    );
    const label = `${count(view.study.active)} observations are active, ${count(view.study.removed)} were removed.`;
    return {
      data,
      layout,
      label,
      caption: "Bars: how many were removed from one point to the next.",
      keys: [
        ["line", "active"],
        ["bars", "removed"],
      ],
    };
  }

  function relevance(view) {
    const scores = view.model && view.model.relevance;
    if (view.model && !scores)
      return { empty: "For this algorithm no observation is ever stale: it has no kernel in time." };
    if (!scores || !scores.line.length) return { empty: "Shown once the model has observations to score." };
    const colours = theme();
    const leaving = (i) => (scores.leaves[i] === null ? "" : `, to be removed ${when(view, scores.leaves[i])}`),
      soon = scores.leaves.filter((time) => time !== null).length;
    const positive = scores.score.filter((score) => score > 0),
      least = positive.length ? Math.min(...positive) : 1;
    const data = [
      {
        type: "scatter",
        mode: "markers",
        x: moments(view, scores.time),
        y: scores.score.map((score) => Math.max(score, least)),
        marker: dots(colours, colours.accent),
        text: scores.line.map(
          (_, i) => `relevance <b>${number(scores.score[i])}</b>${leaving(i)}<br>${describe(view, i, scores)}`,
        ),
        customdata: scores.line,
        hoverinfo: "text",
      },
    ];
    const layout = frame(view, colours, timeAxis(view, colours), axis(colours, "relevance", logAxis(scores.score)));
    const lowest = scores.score.indexOf(Math.min(...scores.score));
    const label = `Relevance of ${count(scores.line.length)} active observations, from ${number(Math.min(...scores.score))} to ${number(Math.max(...scores.score))}.`;
    return {
      data,
      layout,
      label,
      caption: `How far future predictions would move without each observation, relative to losing all of them. The lowest is removed first: the one measured ${when(view, scores.time[lowest])}.${soon ? ` Without new values, ${count(soon)} would be removed within one timescale; point at one to see when.` : ""}`,
    };
  }

  // A quantity after each ask, on a logarithmic axis.
  function course(view, columns, title, format, waiting, steps = STEPS) {
    const known = columns.flatMap((column) => column.values.filter((each) => each !== null && each > 0));
    if (!known.length) return { empty: waiting };
    const colours = theme(),
      x = moments(view, view.asks.time),
      widths = [2, 1.5, 1.5];
    const dashes = ["solid", "dash", "dot", "dashdot", "longdash"];
    const data = columns.map((column, i) => ({
      x,
      y: column.values,
      mode: "lines",
      name: plain(column.name),
      line: {
        color: i ? colours.soft : colours.accent,
        width: widths[Math.min(i, 2)],
        dash: dashes[i % dashes.length],
      },
      text: column.values.map(
        (each, at) => `${plain(column.name)} <b>${format(each)}</b><br>${when(view, view.asks.time[at])}`,
      ),
      hoverinfo: "text",
    }));
    const layout = frame(
      view,
      colours,
      timeAxis(view, colours, { range: stretch(view) }),
      axis(colours, title, logAxis(known, format, steps)),
    );
    const newest = columns.map(
      (column) => `${column.name} ${format(column.values.findLast((each) => each !== null) ?? null)}`,
    );
    return {
      data,
      layout,
      label: `Over time; now ${newest.slice(0, 12).join(", ")}.`,
      caption: columns.length > 1 ? `Solid line: ${columns[0].name}; hover over the others to see their names.` : "",
    };
  }

  function timescale(view) {
    const drifting =
      view.asks.timescale.some((each) => each !== null) || view.asks.noise.every((each) => each === null);
    if (!drifting) return { empty: "This algorithm has no kernel in time." };
    const figure = course(
      view,
      [{ name: "timescale", values: view.asks.timescale }],
      "",
      (each) => span(each, isWall(view)),
      "Shown once there are enough observations to fit it.",
      isWall(view) ? DURATIONS : STEPS,
    );
    const cycles = Object.entries(view.cycles).map(([name, fitted]) =>
      cycle(name, fitted, view.study.cycles[name], isWall(view)),
    );
    return cycles.length ? { ...figure, caption: `${cycles.join(" ")} The timescale is that of the rest.` } : figure;
  }

  // Coordinates of the unit cube, by name: a category has one per choice.
  function coordinates(space) {
    return Object.entries(space).flatMap(([name, parameter]) =>
      parameter.type === "categorical" ? parameter.choices.map((choice) => `${name}: ${value(choice)}`) : [name],
    );
  }

  function lengthscale(view) {
    const { lengthscale: columns, context } = view.asks,
      own = columns.length > 1 ? coordinates(view.study.space) : ["lengthscale"],
      names = [...own, ...coordinates(view.study.context ?? {})];
    const figure = course(
      view,
      [...columns, ...context].map((values, i) => ({ name: names[i], values })),
      "share of the range",
      number,
      "Shown once there are enough observations to fit it.",
    );
    if (!context.length) return figure;
    return { ...figure, caption: `${figure.caption} The longer that of the context, the less difference it makes.` };
  }

  const noise = (view) =>
    course(view, [{ name: "deviation", values: view.asks.noise }], "deviation", number, "Shown once there are enough observations to fit it.");

  const response = (view) =>
    course(
      view,
      [{ name: "response", values: view.asks.response }],
      "",
      (each) => span(each, isWall(view)),
      "Shown once an ask has taken measurable time.",
      isWall(view) ? DURATIONS : STEPS,
    );

  return { objective, ...Ebbtide.panels, map: Ebbtide.map, size, relevance, timescale, lengthscale, noise, response, isWall };
})();

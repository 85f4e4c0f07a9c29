// What the model believes: a map over one parameter (up) and time or a variable of the context (across), with what was
// observed and recommended on it.
"use strict";

Ebbtide.map = (() => {
  const { count, value, plain } = Ebbtide.format;
  const { theme, isWall, moments, valueAxis, timeAxis, stretch, frame } = Ebbtide.axes;
  const { setting } = Ebbtide.words;
  const { where, when, marks, crosses, dots } = Ebbtide.marks;

  // Past and current recommendations. The line breaks between points that are further apart than the timescale, for the
  // recommendation may have been anywhere in between.
  function recommended(view, trail, parameter) {
    const best = view.model.recommendation;
    const known = trail ? trail.time.map((t, i) => [t, trail.params[parameter][i]]) : [];
    const longest = view.asks.timescale.findLast((each) => each !== null) ?? Infinity;
    const times = [],
      values = [];
    let broken = false;
    for (const [t, each] of [...known, [best.time, best.params[parameter]]]) {
      const before = times.at(-1);
      if (before !== undefined && t - before > longest) {
        times.push((t + before) / 2);
        values.push(null);
        broken = true;
      }
      times.push(t);
      values.push(each);
    }
    return { times, values, broken };
  }

  // Observations on the same step are spread over it, each always to the same position. Without steps, step is 0.
  const aside = (line) => 0.6 * ((line * 0.618034) % 1) - 0.3;

  // What a map is drawn across. The browser smooths a grid that is known to be even; otherwise Plotly would compute every
  // pixel.
  function acrossTime(view, colours) {
    const { column } = view.model.map;
    return {
      axis: timeAxis(view, colours, { range: stretch(view) }),
      grid: { x0: moments(view, [column[0]])[0], dx: (column[1] - column[0]) * (isWall(view) ? 1000 : 1) },
      even: true,
      told: moments(view, view.observations.time),
      now: moments(view, [view.model.recommendation.time])[0],
      hover: isWall(view) ? "%{x|%Y-%m-%d %H:%M:%S}" : "at %{x:.4~g}",
    };
  }

  function acrossContext(view, colours, name) {
    const { column } = view.model.map,
      variable = view.study.context[name],
      x = valueAxis(name, variable, colours, variable.choices ? null : [column[0], column.at(-1)]),
      places = column.map(x.place),
      told = view.observations;
    return {
      axis: { ...x.axis, automargin: "height", tickangle: 0 },
      grid: x.step ? { x: places } : { x0: places[0], dx: (places.at(-1) - places[0]) / (places.length - 1) },
      even: !x.step,
      told: told.context[name].value.map((each, i) => x.place(each) + x.step * aside(told.line[i])),
      now: x.place(view.model.context[name].value),
      words: column.map((each) => `${plain(name)} = ${plain(value(each))}`),
      hover: "%{customdata}",
    };
  }

  function grid(rows, { grid: across, even }, { step, uneven }) {
    if (!even || step || uneven || rows.length < 2) return { ...across, y: rows, zsmooth: false };
    return { ...across, y0: rows[0], dy: (rows.at(-1) - rows[0]) / (rows.length - 1), zsmooth: "fast" };
  }

  // In which context a map is drawn, in words.
  function surroundings({ context, across }, latest) {
    const fixed = Object.fromEntries(Object.entries(context).filter(([name]) => name !== across));
    if (!Object.keys(fixed).length) return "";
    const measured = Object.entries(fixed).every(([name, each]) => each === latest[name].value);
    return ` Drawn for ${setting(fixed)}, ${measured ? "as measured last" : "as chosen"}.`;
  }

  function map(view, kind, trail) {
    const colours = theme(),
      told = view.observations,
      { parameter, across, column, value: values } = view.model.map;
    const x = across === null ? acrossTime(view, colours) : acrossContext(view, colours, across),
      y = valueAxis(parameter, view.study.space[parameter], colours);
    const observed = (at, name, marker) => ({
      ...marks(view, colours, at, projected, name, marker),
      x: at.map((i) => x.told[i]),
    });
    const projected = told.params[parameter].map((each, i) => y.place(each) + y.step * aside(told.line[i]));
    const active = where(told.value, (v, i) => v !== null && told.active[i]);
    const removed = where(told.value, (v, i) => v !== null && !told.active[i]);
    const best = view.model.recommendation;
    const trace = recommended(view, trail, parameter),
      line = trace.values.map((each) => (each === null ? null : y.place(each)));
    const shape = y.step ? "hv" : "linear";
    const what = kind === "mean" ? "mean" : "deviation";
    const rows = values.map(y.place);
    const data = [
      {
        type: "heatmap",
        ...grid(rows, x, y),
        z: view.model.map[kind],
        colorscale: [
          [0, colours.low],
          [0.5, colours.middle],
          [1, colours.high],
        ],
        text: values.map((each) => Array(column.length).fill(plain(value(each)))),
        customdata: x.words ? values.map(() => x.words) : undefined,
        hovertemplate: `${what} <b>%{z:.4~g}</b><br>${plain(parameter)} = %{text}<br>${x.hover}<extra></extra>`,
        colorbar: {
          title: { text: what, side: "right", font: { size: 11, color: colours.soft } },
          thickness: 10,
          outlinewidth: 0,
          tickfont: { size: 11, color: colours.soft },
          exponentformat: "power",
          nticks: 6,
        },
      },
      observed(removed, "removed", { ...crosses(colours), line: { width: 1.2, color: colours.soft } }),
      observed(active, "active", dots(colours, colours.ink)),
    ];
    const path = [
      {
        x: moments(view, trace.times),
        y: line,
        mode: "lines",
        line: { color: colours.paper, width: 5, shape },
        hoverinfo: "skip",
      },
      {
        x: moments(view, trace.times),
        y: line,
        mode: trace.broken ? "lines+markers" : "lines",
        name: "recommended",
        line: { color: colours.ink, width: 2, shape },
        marker: { symbol: "diamond", size: 5, color: colours.ink },
        text: trace.times.map((t, i) => `recommended: ${plain(value(trace.values[i]))}<br>${when(view, t)}`),
        hoverinfo: "text",
      },
    ];
    const now = {
      x: [x.now],
      y: [y.place(best.params[parameter])],
      mode: "markers",
      hoverinfo: "skip",
      marker: { symbol: "diamond", size: 11, color: colours.ink, line: { width: 1.5, color: colours.paper } },
    };
    const layout = frame(view, colours, x.axis, y.axis, {
      uirevision: `${view.study.name} ${view.last} ${parameter} ${across}`,
    });
    const label = `The model's ${what} over ${across ?? "time"} and ${parameter}, with ${count(active.length)} active observations as dots and ${count(removed.length)} removed ones as crosses. Recommended now: ${value(best.params[parameter])}.`;
    const caption =
      (Object.keys(told.params).length > 1
        ? "The other parameters are held at the current recommendation; observations are drawn at their value of this one."
        : "") +
      surroundings(view.model.map, view.model.context) +
      (across === null && trace.broken
        ? " Recommendations are joined where they are closer in time than the timescale."
        : "");
    return {
      data: [...data, ...(across === null ? path : []), now],
      layout,
      label,
      caption,
      keys: [
        ["cross", "removed"],
        ["black dot", "active"],
        across === null ? ["black line", "recommended"] : ["black diamond", "recommended now"],
      ],
    };
  }

  return map;
})();

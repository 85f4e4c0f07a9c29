// What the model believes over time and one parameter: a map, with what was observed and recommended on it.
"use strict";

Ebbtide.map = (() => {
  const { count, value, plain } = Ebbtide.format;
  const { theme, isWall, moments, axis, logAxis, timeAxis, stretch, frame } = Ebbtide.axes;
  const { where, when, marks, crosses, dots } = Ebbtide.marks;

  // The axis of a parameter, and the position of a value on it. For a float, the rows of a map are evenly spaced.
  function valueAxis(view, name, colours) {
    const parameter = view.study.space[name];
    if (parameter.choices) {
      const words = parameter.choices.map((choice) => plain(value(choice)));
      return {
        place: (v) => parameter.choices.indexOf(v),
        axis: axis(colours, plain(name), {
          tickvals: words.map((_, i) => i),
          ticktext: words,
          range: [-0.5, words.length - 0.5],
        }),
        step: 1,
      };
    }
    const whole = parameter.type === "int",
      step = parameter.step ?? (whole ? 1 : 0);
    const ends = [parameter.low - step / 2, parameter.high + step / 2];
    if (!parameter.log)
      return {
        place: (v) => v,
        axis: axis(colours, plain(name), { exponentformat: "power", range: ends, nticks: 8 }),
        step,
      };
    const ticks = logAxis(ends),
      range = ends.map((v) => Math.log10(Math.max(v, 0.5 * parameter.low)));
    return {
      place: Math.log10,
      axis: axis(colours, plain(name), { tickvals: ticks.tickvals.map(Math.log10), ticktext: ticks.ticktext, range }),
      step: 0,
      uneven: whole,
    };
  }

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

  // The browser smooths a grid that is known to be even; otherwise Plotly would compute every pixel.
  function grid(view, time, rows, { step: between, uneven }) {
    const first = moments(view, [time[0]])[0],
      step = (time[1] - time[0]) * (isWall(view) ? 1000 : 1);
    const across = { x0: first, dx: step, zsmooth: "fast" };
    if (between || uneven || rows.length < 2) return { ...across, y: rows, zsmooth: false };
    return { ...across, y0: rows[0], dy: (rows.at(-1) - rows[0]) / (rows.length - 1) };
  }

  function map(view, kind, trail) {
    const colours = theme(),
      told = view.observations,
      { parameter, time, value: values } = view.model.map;
    const y = valueAxis(view, parameter, colours);
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
        ...grid(view, time, rows, y),
        z: view.model.map[kind],
        colorscale: [
          [0, colours.low],
          [0.5, colours.middle],
          [1, colours.high],
        ],
        text: values.map((each) => Array(time.length).fill(plain(value(each)))),
        hovertemplate: `${what} <b>%{z:.4~g}</b><br>${plain(parameter)} = %{text}<br>${isWall(view) ? "%{x|%Y-%m-%d %H:%M:%S}" : "at %{x:.4~g}"}<extra></extra>`,
        colorbar: {
          title: { text: what, side: "right", font: { size: 11, color: colours.soft } },
          thickness: 10,
          outlinewidth: 0,
          tickfont: { size: 11, color: colours.soft },
          exponentformat: "power",
          nticks: 6,
        },
      },
      marks(view, colours, removed, projected, "removed", {
        ...crosses(colours),
        line: { width: 1.2, color: colours.soft },
      }),
      marks(view, colours, active, projected, "active", dots(colours, colours.ink)),
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
      {
        x: moments(view, [best.time]),
        y: [y.place(best.params[parameter])],
        mode: "markers",
        hoverinfo: "skip",
        marker: { symbol: "diamond", size: 11, color: colours.ink, line: { width: 1.5, color: colours.paper } },
      },
    ];
    const layout = frame(view, colours, timeAxis(view, colours, { range: stretch(view) }), y.axis, {
      uirevision: `${view.study.name} ${view.last} ${parameter}`,
    });
    const label = `The model's ${what} over time and ${parameter}, with ${count(active.length)} active observations as dots and ${count(removed.length)} removed ones as crosses. Recommended now: ${value(best.params[parameter])}.`;
    const caption =
      (Object.keys(told.params).length > 1
        ? "The other parameters are held at the current recommendation; observations are drawn at their value of this one."
        : "") + (trace.broken ? " Recommendations are joined where they are closer in time than the timescale." : "");
    return {
      data,
      layout,
      label,
      caption,
      keys: [
        ["cross", "removed"],
        ["black dot", "active"],
        ["black line", "recommended"],
      ],
    };
  }

  return map;
})();

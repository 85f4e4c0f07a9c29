// What was measured around the objective, over time: a row for each variable of the context, or for each constraint.
"use strict";

Ebbtide.panels = (() => {
  const { count, plain } = Ebbtide.format;
  const drawnOf = ({ stride }) => (stride > 1 ? ` Of the removed observations, one in ${count(stride)} is drawn.` : "");
  const { limit: limitInWords } = Ebbtide.words;
  const { theme, axis, valueAxis, timeAxis, stretch, frame } = Ebbtide.axes;
  const { where, marks, dots } = Ebbtide.marks;
  const ROW = 120, // pixels
    GAP = 0.22; // of a row, for its title

  // Rows that share the axis of time, from top to bottom: each has a title, an axis and traces.
  function stacked(view, colours, rows, more) {
    const key = (i) => (i ? `y${i + 1}` : "y"),
      top = (i) => 1 - i / rows.length;
    const axes = rows.map(({ axis }, i) => [
      `yaxis${i ? i + 1 : ""}`,
      { ...axis, title: undefined, nticks: 4, domain: [top(i + 1), top(i) - GAP / rows.length] },
    ]);
    const titles = rows.map(({ title }, i) => ({
      text: plain(title),
      x: 0,
      y: top(i) - GAP / rows.length,
      ...{ xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false },
      font: { size: 12, color: colours.soft },
    }));
    const time = timeAxis(view, colours, { range: stretch(view), anchor: key(rows.length - 1) });
    return {
      data: rows.flatMap(({ traces }, i) => traces.map((trace) => ({ ...trace, yaxis: key(i) }))),
      layout: frame(view, colours, time, undefined, { ...Object.fromEntries(axes), annotations: titles }),
      height: ROW * rows.length + 40,
      ...more,
    };
  }

  // --- context ----------------------------------------------------------------------------------------------------

  function context(view) {
    const colours = theme(),
      told = view.observations,
      names = Object.keys(told.context);
    const rows = names.map((name) => variableRow(view, colours, name));
    const filled = names.some((name) => told.context[name].filled.some((each) => each));
    return stacked(view, colours, rows, {
      label: `What was measured of the context over time: ${names.slice(0, 12).join(", ")}.`,
      caption: (filled ? "What was not measured was taken from the latest measurement." : "") + drawnOf(view),
      keys: [["dot", "measured"], ...(filled ? [["ring", "taken from earlier"]] : [])],
    });
  }

  function variableRow(view, colours, name) {
    const { value: values, filled } = view.observations.context[name],
      variable = view.study.context[name],
      at = where(filled, (each) => each !== null).sort((a, b) => view.observations.time[a] - view.observations.time[b]),
      seen = at.map((i) => values[i]);
    const ends = variable.choices || !seen.length ? null : [Math.min(...seen), Math.max(...seen)],
      y = valueAxis(name, variable, colours, ends);
    const trace = marks(view, colours, at, values.map(y.place), name, {
      ...dots(colours, colours.soft),
      size: 5,
      symbol: at.map((i) => (filled[i] ? "circle-open" : "circle")),
    });
    const line = { color: colours.faint, width: 1, shape: variable.choices ? "hv" : "linear" };
    const range = variable.choices ? {} : { range: undefined };
    return { title: name, axis: { ...y.axis, ...range }, traces: [{ ...trace, mode: "lines+markers", line }] };
  }

  // --- constraints ------------------------------------------------------------------------------------------------

  function constraints(view) {
    const colours = theme(),
      names = Object.keys(view.observations.constraints),
      rows = names.map((name) => constraintRow(view, colours, name));
    const broken = names.map((name) => view.observations.constraints[name].broken.filter((each) => each).length);
    return stacked(view, colours, rows, {
      label: `Values under a constraint over time: ${names.map((name, i) => `${name}, of which ${count(broken[i])} drawn break the limit`).join("; ")}.`,
      caption: drawnOf(view),
      keys: [
        ["dot", "within the limit"],
        ["breach", "breaks the limit"],
        ["limit", "limit"],
      ],
    });
  }

  function constraintRow(view, colours, name) {
    const { value: values, broken } = view.observations.constraints[name],
      given = view.study.constraints[name],
      said = limitInWords(given),
      level = given.at_most ?? given.at_least;
    const kept = where(values, (each, i) => each !== null && !broken[i]),
      breaches = where(values, (each, i) => each !== null && broken[i]);
    const line = {
      x: stretch(view),
      y: [level, level],
      mode: "lines",
      name: "limit",
      line: { color: colours.alarm, width: 1.5, dash: "dash" },
      text: [said, said].map(plain),
      hoverinfo: "text",
    };
    const breach = { symbol: "x", size: 7, color: colours.alarm, line: { width: 1, color: colours.paper } };
    return {
      title: `${name}: ${said}`,
      axis: axis(colours, "", { exponentformat: "power" }),
      traces: [
        line,
        marks(view, colours, kept, values, name, { ...dots(colours, colours.soft), size: 5 }),
        marks(view, colours, breaches, values, `${name} broken`, breach),
      ],
    };
  }

  return { context, constraints };
})();

// Axes and layout of figures: the theme's colours, round numbers, the shared time range.
"use strict";

Ebbtide.axes = (() => {
  const { number, value, exact, plain } = Ebbtide.format;

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const names = ["paper", "ink", "soft", "faint", "line", "grid", "accent", "alarm", "low", "middle", "high"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  function translucent(hex, alpha) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
  }

  const isWall = (view) => view.study.clock === "SystemClock";
  const moments = (view, times) => (isWall(view) ? times.map(exact) : times);

  function axis(colours, title, more = {}) {
    return {
      title: title ? { text: title, font: { size: 12, color: colours.soft }, standoff: 8 } : undefined,
      gridcolor: colours.grid,
      linecolor: colours.line,
      zeroline: false,
      ticks: "outside",
      tickcolor: colours.line,
      ticklen: 4,
      tickfont: { size: 11, color: colours.soft },
      automargin: "width",
      ...more,
    };
  }

  // A logarithmic axis with a handful of round numbers, whether it spans a tenth of a decade or ten decades.
  function logAxis(values, format = number, steps = STEPS) {
    const known = values.filter((each) => each > 0);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0.1, 1];
    const room = Math.max(0.06, 0.06 * Math.log10(high / low)),
      range = [Math.log10(low) - room, Math.log10(high) + room];
    const ticks = roundNumbers(10 ** range[0], 10 ** range[1], steps);
    return { type: "log", range, tickvals: ticks, ticktext: ticks.map(format) };
  }

  const within = (all, low, high) => all.filter((each) => each >= low && each <= high);
  const STEPS = Array.from({ length: 37 }, (_, i) => [1, 2, 5].map((part) => Number(`${part}e${i - 18}`))).flat();
  // Round durations in seconds: thirds of a minute, quarters of an hour, halves of a day.
  const DURATIONS = [
    ...within(STEPS, 0, 5),
    10,
    15,
    20,
    30,
    ...[1, 2, 5, 10, 15, 20, 30].map((each) => 60 * each),
    ...[1, 2, 3, 6, 12].map((each) => 3600 * each),
    ...within(STEPS, 1, 1e6).map((each) => 86400 * each),
  ];

  function roundNumbers(low, high, steps) {
    const decades = Math.log10(high / low);
    if (decades < 0.7) {
      const step = steps.find((each) => (high - low) / each <= 4.5) ?? high;
      return within(
        Array.from({ length: 8 }, (_, i) => Number(((Math.floor(low / step) + i) * step).toPrecision(12))),
        low,
        high,
      );
    }
    const found = within(steps, low, high);
    return found.filter((_, i) => i % Math.ceil(found.length / 6) === 0);
  }

  function timeAxis(view, colours, more = {}) {
    const kind = isWall(view) ? { type: "date" } : { type: "linear", exponentformat: "power" };
    return axis(colours, isWall(view) ? "" : "time by the study's clock", {
      ...kind,
      tickangle: 0,
      automargin: "height", // time labels never move the ends of their own axis
      hoverformat: isWall(view) ? "%H:%M:%S" : ".5g",
      ...more,
    });
  }

  // The axis of a parameter or of a variable of the context, and the position of a value on it. For a float, the rows of
  // a map are evenly spaced. `drawn` are the ends of what is drawn, if it is not the range itself.
  function valueAxis(name, parameter, colours, drawn = null) {
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
      step = drawn ? 0 : (parameter.step ?? (whole ? 1 : 0));
    const [low, high] = drawn ?? [parameter.low, parameter.high],
      ends = [low - step / 2, high + step / 2];
    if (!parameter.log)
      return {
        place: (v) => v,
        axis: axis(colours, plain(name), { exponentformat: "power", range: ends, nticks: 8 }),
        step,
      };
    const ticks = logAxis(ends),
      range = ends.map((v) => Math.log10(Math.max(v, 0.5 * low)));
    return {
      place: Math.log10,
      axis: axis(colours, plain(name), { tickvals: ticks.tickvals.map(Math.log10), ticktext: ticks.ticktext, range }),
      step: 0,
      uneven: whole && !drawn,
    };
  }

  // All figures of a page share one time range, so that they can be compared.
  function stretch(view) {
    const times = [...view.observations.time, ...view.asks.time];
    const ends = view.model ? view.model.prediction.time : times;
    const [from, to] = [Math.min(...times, ends[0]), Math.max(...times, ends[ends.length - 1])];
    return moments(view, [from, to]);
  }

  function frame(view, colours, xaxis, yaxis, more = {}) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colours.ink },
      margin: { l: 8, r: 12, t: 8, b: 8, autoexpand: true },
      hoverlabel: {
        bgcolor: colours.paper,
        bordercolor: colours.line,
        font: { size: 12, color: colours.ink },
        align: "left",
      },
      hovermode: "closest",
      showlegend: false,
      uirevision: `${view.study.name} ${view.last}`,
      xaxis,
      yaxis,
      ...more,
    };
  }

  return { theme, translucent, isWall, moments, axis, logAxis, STEPS, DURATIONS, valueAxis, timeAxis, stretch, frame };
})();

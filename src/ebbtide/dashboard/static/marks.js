// Observations as marks, by what they were for and what became of them, and what the pointer shows over them.
"use strict";

Ebbtide.marks = (() => {
  const { number, uncertain, value, exact, plain } = Ebbtide.format;
  const { kind, fate, around } = Ebbtide.words;
  const { isWall, moments } = Ebbtide.axes;

  const plusMinus = (mean, deviation) => uncertain(mean, deviation).join(" ± ");
  const where = (list, test) => list.map((item, i) => (test(item, i) ? i : -1)).filter((i) => i >= 0);
  const pick = (list, at) => at.map((i) => list[i]);

  function describe(view, at, told = view.observations) {
    const line = ([name, each]) => `${plain(name)} = ${plain(value(each))}`,
      lines = Object.entries(told.params).map(([name, values]) => line([name, values[at]]));
    const end =
      told.value[at] === null
        ? fate(told, at)
        : told.active[at]
          ? "active"
          : `removed ${when(view, told.removed_at[at])}${told.relevance[at] === null ? "" : `, relevance ${number(told.relevance[at])}`}`;
    return [
      `<b>${told.value[at] === null ? "no value" : number(told.value[at])}</b>`,
      when(view, told.time[at]),
      ...lines.slice(0, 12),
      ...around(told, at).map(line),
      `${kind(told.kind[at])}, ${end}`,
    ].join("<br>");
  }

  // Two figures draw the same observations.
  const described = new WeakMap();
  function descriptions(view) {
    const told = view.observations;
    if (!described.has(told))
      described.set(
        told,
        told.line.map((_, i) => describe(view, i)),
      );
    return described.get(told);
  }

  const when = (view, time) => (time === null ? "–" : isWall(view) ? exact(time).slice(0, 19) : `at ${number(time)}`);

  function marks(view, colours, at, y, name, marker) {
    return {
      type: "scatter",
      mode: "markers",
      name,
      x: moments(view, pick(view.observations.time, at)),
      y: pick(y, at),
      text: pick(descriptions(view), at),
      customdata: pick(view.observations.line, at),
      hoverinfo: "text",
      marker,
    };
  }

  const crosses = (colours) => ({ symbol: "x-thin", size: 5, line: { width: 1, color: colours.faint } });
  const dots = (colours, fill) => ({
    symbol: "circle",
    size: 6,
    color: fill,
    line: { width: 1, color: colours.paper },
  });

  // A shape for each kind: filled and in colour while active; hollow and faint once removed, except for probes, which
  // are by far the most and become crosses.
  const SHAPES = {
    explore: ["circle", 6, "soft"],
    hold: ["square", 6, "accent"],
    start: ["triangle-up", 9, "ink"],
    baseline: ["star", 10, "ink"],
  };
  const shapes = (told, at) => at.map((i) => SHAPES[told.kind[i] ?? "explore"]);

  function filled(colours, told, at) {
    const drawn = shapes(told, at);
    return {
      symbol: drawn.map(([symbol]) => symbol),
      size: drawn.map(([, size]) => size),
      color: drawn.map(([, , colour]) => colours[colour]),
      opacity: 1, // otherwise marks of several sizes are translucent
      line: { width: 1, color: colours.paper },
    };
  }

  function hollow(colours, told, at) {
    const drawn = shapes(told, at);
    return {
      symbol: drawn.map(([symbol]) => (symbol === "circle" ? "x-thin" : `${symbol}-open`)),
      size: drawn.map(([, size]) => size - 1),
      color: colours.faint,
      opacity: 1,
      line: { width: 1, color: colours.faint },
    };
  }

  return { plusMinus, where, describe, when, marks, crosses, dots, filled, hollow };
})();

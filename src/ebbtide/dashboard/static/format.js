// Numbers, durations and names as text.
"use strict";

const Ebbtide = {};

Ebbtide.format = (() => {
  const DIGITS = 4;
  const written = new Intl.NumberFormat("en", { maximumSignificantDigits: 15 }); // made once, for it is slow to make

  function number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(DIGITS - 2).replace("e+", "e");
    return written.format(Number(value.toPrecision(Math.max(DIGITS, Math.ceil(Math.log10(size + 1))))));
  }

  // A mean and its deviation: the deviation with two digits, the mean with as many places.
  function uncertain(mean, deviation) {
    const places = deviation > 0 ? 1 - Math.floor(Math.log10(deviation)) : DIGITS;
    if (places > 8 || places < -5) return [number(mean), number(deviation)];
    const kept = Math.max(0, places),
      fixed = { minimumFractionDigits: kept, maximumFractionDigits: kept };
    return [mean, deviation].map((each) => each.toLocaleString("en", fixed));
  }

  const count = (value) => written.format(value);

  // A parameter's value, or a choice of any type, as text.
  const value = (given) => (typeof given === "number" ? number(given) : String(given));

  // A duration by the study's clock: in seconds, or in whatever unit its own clock counts.
  function span(amount, wall) {
    if (amount === null || amount === undefined) return "–";
    if (!wall) return number(amount);
    if (amount === 0) return "0 s";
    if (amount < 1e-3) return `${number(amount * 1e6)} µs`;
    if (amount < 1) return `${Number((amount * 1e3).toPrecision(3))} ms`;
    if (amount < 60) return `${Number(amount.toPrecision(3))} s`;
    if (amount < 3600) return pair(amount, 60, "min", 1, "s");
    if (amount < 86400) return pair(amount, 3600, "h", 60, "min");
    return pair(amount, 86400, "d", 3600, "h");
  }

  function pair(amount, large, largeUnit, small, smallUnit) {
    const rounded = Math.round(amount / small) * small;
    const rest = Math.round((rounded % large) / small);
    const first = `${Math.floor(rounded / large)} ${largeUnit}`;
    return rest ? `${first} ${rest} ${smallUnit}` : first;
  }

  function ago(seconds) {
    if (seconds < 1) return "now";
    const whole = Math.floor(seconds);
    if (whole < 60) return `${whole} s ago`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ago`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ago`;
    return `${Math.floor(whole / 86400)} d ago`;
  }

  const two = (part) => String(part).padStart(2, "0");

  // Local time to the millisecond, in the format of a date axis.
  function exact(time) {
    const date = new Date(time * 1000);
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
    return `${day} ${clock}.${String(date.getMilliseconds()).padStart(3, "0")}`;
  }

  // A name for Plotly, which would interpret tags, entities, $formulas$ and %{templates}.
  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", $: "&#36;", "%": "&#37;" };
  const plain = (text) => String(text).replace(/[&<>$%]/g, (sign) => ENTITIES[sign]);

  // An argument for a shell command.
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

  return { number, uncertain, count, value, span, ago, exact, plain, quoted };
})();

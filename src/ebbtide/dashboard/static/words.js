// What a study does and knows, in plain words.
"use strict";

Ebbtide.words = (() => {
  const { number, uncertain, count, value, span } = Ebbtide.format;
  const NEGLIGIBLE = 0.01; // a probability of failure that is not worth a sentence
  const SHOWN = 3; // settings of a start; there may be a thousand

  const KINDS = { explore: "probe", hold: "hold", start: "start", baseline: "baseline" };
  const kind = (given) => KINDS[given] ?? "measured elsewhere";
  // Whether a study has more than probes, which need no name if there is nothing else.
  const hasKinds = (view) => view.observations.kind.some((each) => each !== null && each !== "explore");

  const fate = (told, i) => (told.value[i] !== null ? "" : told.abandoned[i] ? "abandoned" : "failed");
  const percent = (share) => `${Number((100 * share).toPrecision(2))} %`;
  const setting = (params) =>
    Object.entries(params)
      .map(([name, each]) => `${name} = ${value(each)}`)
      .join(", ");

  // What was measured of an observation's context, and under its constraints.
  const around = (told, i) =>
    [...Object.entries(told.context), ...Object.entries(told.constraints)]
      .filter(([, { filled, value: values }]) => (filled ?? values)[i] !== null) // a choice may be null itself
      .map(([name, { value: values }]) => [name, values[i]]);

  function support({ support: worth }) {
    const rounded = Number(worth.toPrecision(2));
    if (rounded < 1) return "Known less well than by one fresh measurement of it.";
    return `As well known as by ${rounded === 1 ? "one fresh measurement" : `${number(rounded)} fresh measurements`} of it.`;
  }

  const risk = ({ failure }) =>
    failure < NEGLIGIBLE ? "" : `It fails with a probability of about ${percent(failure)}.`;

  const feasible = ({ feasible: probability }, { constraints }) =>
    Object.keys(constraints).length
      ? ` It meets all constraints with a probability of about ${percent(probability)}.`
      : "";

  const inContext = ({ context }) => {
    const latest = Object.fromEntries(Object.entries(context).map(([name, { value: each }]) => [name, each]));
    return Object.keys(latest).length ? ` In the context measured last: ${setting(latest)}.` : "";
  };

  // --- cycles and constraints -------------------------------------------------------------------------------------

  function cycle(name, { share, length }, period, wall) {
    const back = `of the variation comes back every ${span(period, wall)}`;
    if (share < NEGLIGIBLE) return `${name}: less than ${percent(NEGLIGIBLE)} ${back}.`;
    const kept = span(Number(length.toPrecision(2)), wall);
    return `${name}: ${percent(share)} ${back}, and its course stays the same for about ${kept}.`;
  }

  const limit = ({ at_most: most, at_least: least }) =>
    most === undefined ? `at least ${number(least)}` : `at most ${number(most)}`;

  const rate = ({ rate: share }) => (share === null ? "–" : percent(share));

  function violated({ violations, failures_violate: failing }) {
    const { rate: share, counted, per_constraint: each } = violations;
    if (share === null) return "No ask was told with a value under a constraint yet.";
    const parts = Object.entries(each).map(([name, part]) => `${name} ${percent(part)}`);
    return (
      `${count(Math.round(share * counted))} of ${count(counted)} asks broke a limit${failing ? " or failed" : ""}` +
      `${parts.length > 1 ? `: ${parts.join(", ")}` : ""}.`
    );
  }

  // --- the gain over the baseline ---------------------------------------------------------------------------------

  const signed = (text) => (/^[-0.,]*$/.test(text) || text.startsWith("-") ? text : `+${text}`);
  // A mean and the ends of its interval, with as many places as the interval deserves.
  const rounded = ([mean, low, high]) => [mean, low, high].map((each) => uncertain(each, (high - low) / 4)[0]);

  function gain({ mean, low, high, relative }) {
    const unit = relative ? " %" : "",
      [middle, from, to] = rounded(relative ? relative.map((share) => 100 * share) : [mean, low, high]).map(signed);
    return { value: `${middle}${unit}`, interval: `${from} to ${to}${unit}` };
  }

  function gainInWords({ mean, low, high, baseline, comparisons }, params) {
    const [by, from, to] = rounded([mean, low, high]),
      size = by.replace(/^-/, ""),
      doubt = low <= 0 && high >= 0 ? " The interval includes 0, so there may be no difference." : "";
    return (
      `While the recommended setting is held, the objective is ${mean < 0 ? "worse" : "better"} by ${size} than with the ` +
      `baseline (${setting(params)}), which gave ${number(baseline)} on average. The 95 % interval is ${from} to ${to}, from ` +
      `${count(comparisons)} measurements of the baseline, each compared with the holds before and after it.${doubt}`
    );
  }

  // --- the options of a study -------------------------------------------------------------------------------------

  function failures({ on_failure: given }) {
    if (given === "ignore") return "are ignored";
    return given === "worst" ? "count as the worst active value" : `count as ${number(given)}`;
  }

  function probes({ explore }) {
    if (explore === 1) return "every ask";
    const others = "the recommended setting is held";
    return explore === 0 ? `no ask: ${others}` : `${percent(explore)} of the asks; in the others, ${others}`;
  }

  function start({ start: settings }) {
    if (!settings.length) return "no setting given";
    const more = settings.length > SHOWN ? `, and ${count(settings.length - SHOWN)} more` : "";
    return settings.slice(0, SHOWN).map(setting).join("; then ") + more;
  }

  function movement({ movement: given, space }) {
    const limits = Object.entries(given?.limit ?? {}).map(([name, limit]) => {
      const unit = space[name].choices ? (limit === 1 ? " rank" : " ranks") : "";
      return `${name} by at most ${number(limit)}${unit} per step`;
    });
    const cost = given?.cost ? [`moving a parameter across its whole range costs ${number(given.cost)}`] : [];
    return [...limits, ...cost].join("; ") || "free";
  }

  const baseline = ({ baseline: params, baseline_every: every }) =>
    params ? `${setting(params)}; measured in one of ${count(every)} asks` : "no setting given";

  const range = ({ choices, low, high }) => (choices ? choices.map(value).join(", ") : `${number(low)} to ${number(high)}`);
  const context = ({ context: given }) =>
    Object.entries(given ?? {})
      .map(([name, variable]) => `${name} (${range(variable)})`)
      .join("; ");
  const cycles = ({ cycles: given, clock }) =>
    Object.entries(given)
      .map(([name, period]) => `${name}, every ${span(period, clock === "SystemClock")}`)
      .join("; ");
  function constraints({ constraints: given, violation_rate: target, failures_violate: failing }) {
    const limits = Object.entries(given).map(([name, each]) => `${name} ${limit(each)}`);
    const share = `; broken by at most ${percent(target)} of the asks in the long run`;
    return limits.length ? `${limits.join("; ")}${share}${failing ? ", and failures count" : ""}` : "";
  }

  // `siblings` is null where the model cannot be computed.
  function family({ family: name }, siblings) {
    if (!name || siblings === null) return name ?? "";
    if (!siblings) return `${name}, no siblings to learn from yet`;
    return `${name}, ${siblings === 1 ? "1 sibling" : `${count(siblings)} siblings`}`;
  }

  const options = (study, siblings) => [
    ...[
      ["Family", family(study, siblings)],
      ["Context", context(study)],
      ["Cycles", cycles(study)],
      ["Constraints", constraints(study)],
    ].filter(([, said]) => said),
    ["Probes", probes(study)],
    ["Start", start(study)],
    ["Movement", movement(study)],
    ["Baseline", baseline(study)],
    ["Failures", failures(study)],
  ];

  return {
    ...{ kind, hasKinds, fate, setting, around, support, risk, feasible, inContext, cycle, limit, rate, violated },
    ...{ percent, gain, gainInWords, options },
  };
})();

// The words and numbers on the page of a study, from its view into the document. The figures are elsewhere.
"use strict";

Ebbtide.facts = (() => {
  const { number, uncertain, count, value, span } = Ebbtide.format;
  const { kind, hasKinds, fate, support, risk, feasible, inContext, percent, rate, violated } = Ebbtide.words;
  const { gain, gainInWords, options } = Ebbtide.words;
  const { isWall } = Ebbtide.axes;
  const { find, element, row, moment } = Ebbtide.parts;
  const NEWEST = 7;

  // A term and what it is, in a list of definitions.
  function pair(term, ...said) {
    const box = element("div"),
      facts = element("dd");
    facts.append(...said);
    box.append(element("dt", term), facts);
    return box;
  }

  function heading(text, scope, className) {
    const head = element("th", text, className);
    head.scope = scope;
    return head;
  }

  function showNumbers(view) {
    const { study, asks } = view,
      wall = isWall(view);
    const newest = (column) => column.findLast((each) => each !== null) ?? null;
    find("figures").replaceChildren(
      pair("Told", count(study.told)),
      pair("Active", count(study.active)),
      pair("Removed", count(study.removed)),
      pair("Failed", count(study.failed)),
      pair("Abandoned", count(study.abandoned)),
      pair("Last told", moment(study.last_told, wall)),
      pair("Timescale", span(newest(asks.timescale), wall)),
      pair("Response", span(newest(asks.response), wall)),
    );
  }

  function showAdvice({ advice }) {
    find("advice").hidden = !advice.length;
    find("advice")
      .querySelector("ul")
      .replaceChildren(...advice.map((sentence) => element("li", sentence)));
  }

  function showBest(view) {
    const best = view.model?.recommendation,
      part = (selector) => find("best").querySelector(selector);
    part(".known").hidden = !best;
    part(".unknown").hidden = !!best;
    part(".unknown").textContent = best ? "" : view.why;
    if (!best) return;
    const [mean, deviation] = uncertain(best.mean, best.std);
    part(".value").replaceChildren(mean, element("small", ` ± ${deviation}`));
    part("tbody").replaceChildren(
      ...Object.entries(best.params).map(([name, each]) => {
        const cell = element("td", value(each), "number");
        cell.title = String(each);
        return row([heading(name, "row", "name"), cell]);
      }),
    );
    part(".caption").replaceChildren(
      "Expected value ± deviation by the model, as of ",
      moment(best.time, isWall(view)),
      `. ${support(best)}${feasible(best, view.study)}${inContext(view.model)}`,
    );
    part(".risk").textContent = risk(best);
  }

  function showGain({ study, gain: found }) {
    find("gain").hidden = !study.baseline;
    if (!study.baseline) return;
    const said = find("gain").querySelector(".value"),
      caption = find("gain").querySelector(".caption");
    said.classList.toggle("unknown", !found);
    if (!found) {
      said.textContent = "Not enough yet";
      caption.textContent =
        "It takes three measurements of the baseline, each with a hold of the recommended setting before and after it.";
      return;
    }
    const { value: middle, interval } = gain(found);
    said.replaceChildren(middle, element("small", ` ${interval}`));
    caption.textContent = gainInWords(found, study.baseline);
  }

  function showViolations({ study }) {
    find("violations").hidden = !study.violations;
    if (!study.violations) return;
    const part = (selector) => find("violations").querySelector(selector);
    part(".value").replaceChildren(
      rate(study.violations),
      element("small", ` target: ${percent(study.violations.target)}`),
    );
    part(".caption").textContent = violated(study);
  }

  // A value that is under a constraint.
  function limited({ value: values, broken }, i) {
    const cell = element("td", number(values[i]), broken[i] ? "broken" : "");
    if (broken[i]) cell.title = "breaks the limit";
    return cell;
  }

  function showNewest(view) {
    const { observations: told, study } = view,
      names = Object.keys(study.space),
      [variables, limits] = [told.context, told.constraints].map(Object.values),
      kinds = hasKinds(view);
    const around = [told.context, told.constraints].flatMap(Object.keys);
    const heads = ["When", "Value", ...(kinds ? ["Kind"] : []), ...names, ...around];
    find("newest")
      .querySelector("thead")
      .replaceChildren(row(heads.map((name, i) => heading(name, "col", i === 1 ? "number" : ""))));
    const last = told.line
      .map((_, i) => i)
      .slice(-NEWEST)
      .reverse();
    find("newest")
      .querySelector("tbody")
      .replaceChildren(
        ...last.map((i) => {
          const when = element("td");
          when.append(moment(told.time[i], isWall(view)));
          const made = row([
            when,
            element("td", fate(told, i) || number(told.value[i]), "number"),
            ...(kinds ? [element("td", kind(told.kind[i]))] : []),
            ...names.map((name) => element("td", value(told.params[name][i]))),
            ...variables.map(({ value: values, filled }) => element("td", filled[i] === null ? "–" : value(values[i]))),
            ...limits.map((each) => limited(each, i)),
          ]);
          if (!told.active[i]) made.className = "gone";
          return made;
        }),
      );
  }

  function showGuards({ model }) {
    const guards = Object.entries(model?.guards ?? {}).filter(([, times]) => times > 0);
    find("guards").hidden = !guards.length;
    find("guards")
      .querySelector("dl")
      .replaceChildren(
        ...guards.map(([name, times]) =>
          pair(`${name}: ${times === 1 ? "once" : `${count(times)} times`}`, model.meanings[name] ?? ""),
        ),
      );
  }

  const showOptions = ({ study, siblings }) =>
    find("options")
      .querySelector("dl")
      .replaceChildren(...options(study, siblings).map(([term, said]) => pair(term, said)));

  // What can be said of any study, and of one with observations.
  const ALWAYS = [showNumbers, showAdvice, showOptions],
    OBSERVED = [showBest, showGain, showViolations, showNewest, showGuards];
  function show(view) {
    for (const part of view.study.told ? [...ALWAYS, ...OBSERVED] : ALWAYS) part(view);
  }

  return { show };
})();

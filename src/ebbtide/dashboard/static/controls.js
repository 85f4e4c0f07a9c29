// The controls of the map: which parameter, across what, and in which context.
"use strict";

Ebbtide.controls = (() => {
  const { value } = Ebbtide.format;
  const { find, element, written } = Ebbtide.parts;

  // The options of a list, made anew only if there are others.
  function offer(select, options) {
    if ([...select.options].map((option) => option.value).join("\n") === options.map(([key]) => key).join("\n")) return;
    select.replaceChildren(
      ...options.map(([key, text]) => {
        const option = element("option", text);
        option.value = key;
        return option;
      }),
    );
  }

  // A control for each variable of the context; an empty one means the latest measurement.
  function fields(context, chosen, changed) {
    return Object.entries(context).map(([name, variable]) => {
      const label = element("label", name, "choice"),
        field = element(variable.choices ? "select" : "input");
      field.dataset.name = name;
      if (variable.choices)
        offer(field, [["", "latest"], ...variable.choices.map((each) => [JSON.stringify(each), value(each)])]);
      else Object.assign(field, { type: "number", step: "any" });
      field.value = Object.hasOwn(chosen, name) ? JSON.stringify(chosen[name]) : "";
      field.addEventListener("change", () => {
        if (variable.log && Number(field.value) <= 0) field.value = ""; // which has no place on such a scale
        changed();
      });
      label.append(field);
      return label;
    });
  }

  const read = (field) => (field.type === "number" ? field.valueAsNumber : JSON.parse(field.value));
  const surroundings = () => [...find("surroundings").querySelectorAll("[data-name]")];
  // The variables that are set, as JSON; null if all are as measured last.
  function chosenContext() {
    const set = surroundings().filter((field) => field.value !== "");
    return set.length
      ? JSON.stringify(Object.fromEntries(set.map((field) => [field.dataset.name, read(field)])))
      : null;
  }

  function show({ study, model }, context, choose) {
    const names = Object.keys(study.space),
      variables = Object.keys(study.context ?? {});
    offer(
      find("parameter"),
      names.map((name) => [name, name]),
    );
    find("parameter").value = model ? model.map.parameter : names[0];
    find("across").parentElement.hidden = !variables.length;
    find("surroundings").hidden = !variables.length || written !== null; // a report has only the latest context
    if (!variables.length) return;
    offer(find("across"), [["", "time"], ...variables.map((name) => [name, name])]);
    find("across").value = model?.map.across ?? "";
    if (!surroundings().length && !written)
      find("surroundings").append(
        ...fields(study.context, JSON.parse(context) ?? {}, () => choose("context", chosenContext())),
      );
    for (const field of surroundings()) {
      field.placeholder = model ? value(model.context[field.dataset.name].value) : "";
      field.disabled = field.dataset.name === model?.map.across;
    }
  }

  return { show };
})();

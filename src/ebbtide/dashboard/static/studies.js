// The list of studies.
"use strict";

Ebbtide.studies = (() => {
  const { count } = Ebbtide.format;
  const { Refused, Lost } = Ebbtide.source;
  const { find, element, row, mode, source, moment, status, command, askForToken } = Ebbtide.parts;
  const LIST_MS = 5000;

  const algorithm = (study) => (typeof study.algorithm === "string" ? study.algorithm : "custom");

  async function show() {
    document.title = "Studies · ebbtide";
    const after = new URLSearchParams(location.search).get("after");
    let next = LIST_MS;
    try {
      showList(await source.studies(after), after);
      status("live", "live");
    } catch (error) {
      if (error instanceof Refused && [401, 403].includes(error.status)) return askForToken(show, error);
      if (!(error instanceof Refused) && !(error instanceof Lost)) throw error;
      status("Cannot reach the service; trying again", "lost");
      next = 1000;
    }
    setTimeout(show, next);
  }

  function showList({ studies, next }, after) {
    find("studies").hidden = false;
    find("studies").querySelector(".scroll").hidden = !studies.length;
    const more = find("studies").querySelector(".more");
    more.hidden = next === null;
    if (next !== null) more.querySelector("a").href = `/?after=${encodeURIComponent(next)}`;
    const empty = find("studies").querySelector(".empty");
    empty.hidden = studies.length > 0 || after !== null || next !== null;
    if (!empty.hidden) {
      if (mode === "file") {
        empty.querySelector("p").textContent = "This file has no studies.";
        empty.querySelector(".command").hidden = true;
      } else
        command(empty, "/studies", {
          name: "edge-7",
          space: { power: { type: "float", low: 1.26, high: 316, log: true } },
          direction: "maximize",
        });
    }
    const rows = studies.map((study) => {
      const name = element("td", undefined, "name"),
        link = element("a", study.name),
        last = element("td");
      link.href = `/view/${encodeURIComponent(study.name)}`;
      name.append(link);
      last.append(moment(study.last_told, study.clock === "SystemClock"));
      const counts = [study.told, study.failed, study.abandoned, study.active, study.removed];
      const numbers = counts.map((each) => element("td", count(each), "number"));
      return row([name, element("td", study.direction), element("td", algorithm(study)), ...numbers, last]);
    });
    const body = find("studies").querySelector("tbody"),
      focused = document.activeElement?.getAttribute("href");
    body.replaceChildren(...rows);
    if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }

  return { show, algorithm };
})();

// The page: what is chosen, what is known, and putting it into the document. Names only ever become text.
"use strict";

(() => {
  const { number, uncertain, count, value, span, ago, exact, quoted } = Ebbtide.format;
  const { Refused } = Ebbtide.source;
  const find = (id) => document.getElementById(id);
  const root = document.documentElement, mode = root.dataset.mode; // service, file or report
  const written = mode === "report" ? Ebbtide.source.written() : null;
  const source = written ?? Ebbtide.source.service;

  const REFRESH_MS = 1000; // between two looks at most, and three times as long as a look takes
  const IDLE_MS = 15000; // time passes for the model even if nothing happens
  const LIST_MS = 5000;
  const LENGTHS = [250, 1000, 5000, null]; // observations to show; null: all
  const NEWEST = 7;
  const CONFIG = { displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset" };

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  const row = (cells) => { const made = element("tr"); made.append(...cells); return made; };

  // --- choices, kept in the address ---------------------------------------------------------------------------

  const choices = new URLSearchParams(location.hash.slice(1));
  function choose(name, chosen) {
    choices.set(name, chosen);
    history.replaceState(null, "", `#${choices}`);
  }
  const chosenLast = () => { const given = Number(choices.get("last") ?? LENGTHS[0]); return LENGTHS.includes(given) ? given : null; };
  const chosenKind = () => (choices.get("kind") === "std" ? "std" : "mean");

  // --- theme ------------------------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  function remembered() { try { return localStorage.getItem("ebbtide theme") ?? "auto"; } catch { return "auto"; } }
  function dress() {
    const wanted = find("theme").value;
    root.dataset.theme = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
  }
  function setUpTheme(redraw) {
    find("theme").value = remembered();
    find("theme").addEventListener("change", () => {
      try { localStorage.setItem("ebbtide theme", find("theme").value); } catch { /* a page from a file may not keep it */ }
      dress();
      redraw();
    });
    dark.addEventListener("change", () => { dress(); redraw(); });
    dress();
  }

  // --- words that many places need ----------------------------------------------------------------------------------

  // A moment, as how long ago it was; the exact one on hover. It grows older by itself.
  function moment(time, wall) {
    if (time === null || time === undefined) return element("span", "never");
    if (!wall) return element("span", number(time));
    const made = element("time");
    made.dateTime = new Date(time * 1000).toISOString();
    made.dataset.time = time;
    made.title = exact(time);
    age(made);
    return made;
  }
  const present = () => (written ? written.made : Date.now() / 1000);
  const age = (made) => { made.textContent = ago(Math.max(0, present() - Number(made.dataset.time))); };
  setInterval(() => document.querySelectorAll("time[data-time]").forEach(age), 1000);

  function status(text, kind) {
    if (find("status").textContent !== text) find("status").textContent = text;
    find("status").className = kind;
  }

  function problem(title, message) {
    for (const id of ["studies", "study", "token"]) find(id).hidden = true;
    find("problem").hidden = false;
    find("problem").querySelector("h1").textContent = title;
    find("problem").querySelector("p").textContent = message;
  }

  function setUpCopying() {
    for (const box of document.querySelectorAll(".command")) {
      const button = box.querySelector("button");
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(box.querySelector("pre").textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(box.querySelector("pre")); // a page without a secure origin may not copy
          button.textContent = "Selected";
        }
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
    }
  }

  function command(box, path, body) {
    const token = source.hasToken() ? ` \\\n  -H "Authorization: Bearer $EBBTIDE_TOKEN"` : "";
    const json = JSON.stringify(body);
    box.querySelector("pre").textContent =
      `curl ${quoted(location.origin + path)} -H 'Content-Type: application/json'${token} \\\n  -d ${quoted(json)}`;
  }

  // A service with a token: ask for it, then begin again.
  function askForToken(begin) {
    const form = find("token");
    for (const id of ["studies", "study", "problem"]) find(id).hidden = true;
    form.querySelector(".wrong").textContent = source.hasToken() ? "That was not it." : "";
    source.dropToken();
    form.hidden = false;
    form.querySelector("input").focus();
    form.onsubmit = (event) => {
      event.preventDefault();
      source.useToken(form.querySelector("input").value);
      form.querySelector("input").value = "";
      form.hidden = true;
      begin();
    };
  }

  // --- the list of studies ----------------------------------------------------------------------------------------------

  const goal = (study) => (study.direction === "maximize" ? "maximize" : "minimize");
  const algorithm = (study) => (typeof study.algorithm === "string" ? study.algorithm : "its own");

  async function list() {
    document.title = "Studies · ebbtide";
    let next = LIST_MS;
    try {
      showList(await source.studies());
      status("live", "live");
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return askForToken(list);
      status("Cannot reach the service; trying again", "lost");
      next = 1000;
    }
    setTimeout(list, next);
  }

  function showList(studies) {
    find("studies").hidden = false;
    find("studies").querySelector(".scroll").hidden = !studies.length;
    const empty = find("studies").querySelector(".empty");
    empty.hidden = studies.length > 0;
    if (!studies.length) {
      if (mode === "file") { empty.querySelector("p").textContent = "There is no study in this file yet."; empty.querySelector(".command").hidden = true; }
      else command(empty, "/studies", { name: "edge-7", space: { power: { type: "float", low: 1.26, high: 316, log: true } }, direction: "maximize" });
    }
    const rows = studies.map((study) => {
      const name = element("td", undefined, "name"), link = element("a", study.name), last = element("td");
      link.href = `/view/${encodeURIComponent(study.name)}`;
      name.append(link);
      last.append(moment(study.last_told, study.clock === "SystemClock"));
      const numbers = [study.told, study.active, study.removed].map((each) => element("td", count(each), "number"));
      return row([name, element("td", goal(study)), element("td", algorithm(study)), ...numbers, last]);
    });
    const body = find("studies").querySelector("tbody"), focused = document.activeElement?.getAttribute("href");
    body.replaceChildren(...rows);
    if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }

  // --- one study --------------------------------------------------------------------------------------------------------

  const FIGURES = {
    objective: "Objective", map: "What the model believes", size: "Dataset", relevance: "Relevance of what is active",
    timescale: "Timescale", lengthscale: "Lengthscales", noise: "Noise", response: "Response time",
  };

  function setUpFigures() {
    for (const [id, title] of Object.entries(FIGURES)) {
      const plot = element("div", undefined, "plot"), heading = element("h2", title);
      heading.id = `${id}-title`;
      find(id).setAttribute("aria-labelledby", heading.id);
      plot.setAttribute("role", "img");
      find(id).prepend(heading);
      find(id).append(element("p", undefined, "keys"), plot, element("figcaption"));
    }
  }

  const loaded = new Promise((resolve) => addEventListener("load", resolve)); // Plotly, too

  function draw(id, figure) {
    const plot = find(id).querySelector(".plot"), caption = find(id).querySelector("figcaption");
    caption.textContent = figure.caption ?? "";
    if (figure.empty) {
      Plotly.purge(plot);
      plot.replaceChildren(element("p", figure.empty));
      plot.classList.add("blank");
      plot.setAttribute("aria-label", figure.empty);
      return;
    }
    if (plot.classList.contains("blank")) { plot.replaceChildren(); plot.classList.remove("blank"); }
    plot.setAttribute("aria-label", figure.label);
    find(id).querySelector(".keys").replaceChildren(...(figure.keys ?? []).map(([mark, name]) => element("span", name, `key ${mark}`)));
    figure.layout.xaxis.nticks = Math.max(3, Math.floor(plot.clientWidth / 110));
    Plotly.react(plot, figure.data, figure.layout, CONFIG);
  }

  class StudyPage {
    constructor(name) {
      this.name = name;
      this.view = this.trail = null;
      this.looking = this.again = this.trailing = false;
      this.timer = 0;
      [this.inSight, this.drawn, this.stale] = [new Set(), new Set(), new Set()];
    }

    begin() {
      document.title = `${this.name} · ebbtide`;
      find("crumb").textContent = ` / ${this.name}`;
      find("study").querySelector("h1").textContent = this.name;
      if (written) { this.look(); status("", ""); return; }
      status("Connecting", "");
      source.follow(this.name, {
        connected: () => { status("live", "live"); this.look(); },
        news: () => this.soon(),
        lost: () => status(this.view ? "Connection lost; trying again. What is shown is what was known" : "Cannot reach the service; trying again", "lost"),
        refused: (error) => this.refused(error),
      });
      document.addEventListener("visibilitychange", () => { if (!document.hidden) this.look(); });
    }

    refused(error) {
      if (error.status === 401) return askForToken(() => this.begin());
      if (error.status === 404) return problem(`There is no study “${this.name}”`, "It was deleted, or never created.");
      return problem("The service refused", error.message);
    }

    // Look again, but not more often than what is seen can be taken in.
    soon() {
      if (this.timer || document.hidden) return;
      const wait = Math.max(REFRESH_MS, 3 * (this.took ?? 0)) - (performance.now() - (this.looked ?? -Infinity));
      this.timer = setTimeout(() => { this.timer = 0; this.look(); }, Math.max(0, wait));
    }

    async look() {
      if (this.looking) { this.again = true; return; }
      this.looking = true;
      const began = (this.looked = performance.now());
      const last = chosenLast(), parameter = choices.get("parameter");
      try {
        const view = await source.study(this.name, last, parameter);
        await loaded;
        if (this.trail?.last !== last) this.trail = null;
        this.view = { ...view, last };
        await this.show();
        this.follow(last);
      } catch (error) {
        if (error instanceof Refused && error.status === 422 && choices.has("parameter")) { choices.delete("parameter"); this.again = true; }
        else if (error instanceof Refused && error.status < 500) this.refused(error);
        else if (!(error instanceof TypeError) && !(error instanceof Refused)) throw error; // else the line is down, which the stream says
      } finally {
        this.took = performance.now() - began;
        this.looking = false;
      }
      clearTimeout(this.idle);
      if (!written) this.idle = setTimeout(() => { if (!document.hidden) this.look(); }, IDLE_MS);
      if (this.again) { this.again = false; this.look(); }
    }

    // The recommendations of the past come a few at a time.
    async follow(last) {
      if (this.trailing || !this.view.model) return;
      this.trailing = true;
      try {
        let trail;
        do {
          trail = await source.trail(this.name, last);
          if (chosenLast() !== last) return;
          const grown = this.trail?.last !== last || trail.time.at(-1) !== this.trail.time.at(-1);
          this.trail = { ...trail, last };
          if (grown || !trail.missing) this.draw("map"); // not for each of the few that come in between
        } while (trail.missing);
      } catch (error) { if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error; } finally { this.trailing = false; }
    }

    async show() {
      const { study, model, why } = this.view;
      find("problem").hidden = find("token").hidden = true;
      find("study").hidden = false;
      find("about").replaceChildren(`${study.direction === "maximize" ? "Maximizes" : "Minimizes"} by ${algorithm(study)}, created `, moment(study.created, true));
      const nothing = study.told === 0;
      find("first").hidden = !nothing || mode === "report";
      find("pictures").hidden = nothing;
      find("why").hidden = !why || nothing;
      find("why").textContent = why ?? "";
      this.showNumbers();
      this.showParameters();
      if (nothing) return this.showFirst();
      this.showBest();
      this.showNewest();
      this.showGuards();
      find("best").hidden = find("map").hidden = !model;
      await this.redraw();
    }

    // One figure at a time, so that the page answers in between; those out of sight when they come into it.
    async redraw() {
      if (!this.view || this.view.study.told === 0) return;
      const turn = (this.turn = (this.turn ?? 0) + 1);
      this.stale = new Set(Object.keys(FIGURES));
      for (const id of Object.keys(FIGURES)) {
        if (this.inSight.has(id) || !this.drawn.has(id)) this.draw(id);
        await new Promise((resolve) => setTimeout(resolve));
        if (this.turn !== turn) return;
      }
    }

    draw(id) {
      if (id === "map" && !this.view.model) return;
      this.stale.delete(id);
      this.drawn.add(id);
      draw(id, id === "map" ? Ebbtide.figures.map(this.view, chosenKind(), this.trail) : Ebbtide.figures[id](this.view));
    }

    watchSight() {
      const observer = new IntersectionObserver((changes) => {
        for (const { target, isIntersecting } of changes) {
          this.inSight[isIntersecting ? "add" : "delete"](target.id);
          if (isIntersecting && this.stale.has(target.id)) this.draw(target.id);
        }
      }, { rootMargin: "100px" });
      for (const id of Object.keys(FIGURES)) observer.observe(find(id));
    }

    showNumbers() {
      const { study, asks } = this.view, wall = Ebbtide.figures.isWall(this.view);
      const newest = (column) => column.findLast((each) => each !== null) ?? null;
      const facts = [
        ["Told", count(study.told), study.failed ? ` ${count(study.failed)} failed` : ""],
        ["Active", count(study.active), ""],
        ["Removed", count(study.removed), ""],
        ["Last told", moment(study.last_told, wall), ""],
        ["Timescale", span(newest(asks.timescale), wall), ""],
        ["Response", span(newest(asks.response), wall), ""],
      ];
      find("figures").replaceChildren(...facts.map(([term, fact, more]) => {
        const box = element("div"), said = element("dd");
        said.append(fact, ...(more ? [element("small", more)] : []));
        box.append(element("dt", term), said);
        return box;
      }));
    }

    showParameters() {
      const names = Object.keys(this.view.study.space), select = find("parameter");
      if ([...select.options].map((option) => option.value).join("\n") !== names.join("\n")) {
        select.replaceChildren(...names.map((name) => { const option = element("option", name); option.value = name; return option; }));
      }
      select.value = this.view.model ? this.view.model.map.parameter : names[0];
    }

    showFirst() {
      const hint = find("first").querySelector(".hint"), box = find("first").querySelector(".command");
      box.hidden = mode !== "service" || !Ebbtide.figures.isWall(this.view);
      hint.textContent = box.hidden ? "The pictures come with the first observation." : "Ask what to measure, or tell what you have measured; this line tells a first value:";
      const params = Object.fromEntries(Object.entries(this.view.study.space).map(([name, parameter]) => [name, middle(parameter)]));
      command(box, `/studies/${encodeURIComponent(this.name)}/tell`, { params, value: 1.0 });
    }

    showBest() {
      const best = this.view.model?.recommendation;
      if (!best) return;
      const [said, caption] = [find("best").querySelector(".value"), find("best").querySelector(".caption")];
      const [mean, deviation] = uncertain(best.mean, best.std);
      said.replaceChildren(mean, element("small", ` ± ${deviation}`));
      find("best").querySelector("tbody").replaceChildren(...Object.entries(best.params).map(([name, each]) => {
        const head = element("th", name, "name");
        head.scope = "row";
        const cell = element("td", value(each), "number");
        cell.title = String(each);
        return row([head, cell]);
      }));
      caption.replaceChildren("Expected value ± deviation, by the model, as of ", moment(best.time, Ebbtide.figures.isWall(this.view)), ".");
    }

    showNewest() {
      const { observations, study } = this.view, names = Object.keys(study.space);
      const heads = ["When", "Value", ...names].map((name, i) => { const head = element("th", name, i === 1 ? "number" : ""); head.scope = "col"; return head; });
      find("newest").querySelector("thead").replaceChildren(row(heads));
      const last = observations.line.map((_, i) => i).slice(-NEWEST).reverse();
      find("newest").querySelector("tbody").replaceChildren(...last.map((i) => {
        const when = element("td");
        when.append(moment(observations.time[i], Ebbtide.figures.isWall(this.view)));
        const said = element("td", observations.value[i] === null ? "failed" : number(observations.value[i]), "number");
        const made = row([when, said, ...names.map((name) => element("td", value(observations.params[name][i])))]);
        if (!observations.active[i]) made.className = "gone";
        return made;
      }));
    }

    showGuards() {
      const guards = Object.entries(this.view.model?.guards ?? {}).filter(([, times]) => times > 0);
      find("guards").hidden = !guards.length;
      find("guards").querySelector("ul").replaceChildren(...guards.map(([name, times]) => element("li", `${name}: ${times === 1 ? "once" : `${count(times)} times`}`)));
    }
  }

  function middle(parameter) {
    if (parameter.type === "categorical") return parameter.choices[0];
    const half = parameter.log ? Math.sqrt(parameter.low * parameter.high) : (parameter.low + parameter.high) / 2;
    if (parameter.type === "int") return Math.round(half);
    const rounded = Number(half.toPrecision(4));
    return rounded >= parameter.low && rounded <= parameter.high ? rounded : half;
  }

  function setUpChoices(page) {
    find("last").replaceChildren(...LENGTHS.map((length) => {
      const option = element("option", length === null ? "all observations" : `last ${count(length)} observations`);
      option.value = length ?? "all";
      return option;
    }));
    find("last").value = chosenLast() ?? "all";
    find("last").addEventListener("change", () => { choose("last", find("last").value); page.look(); });
    find("parameter").addEventListener("change", () => { choose("parameter", find("parameter").value); page.look(); });
    for (const radio of document.querySelectorAll("input[name=kind]")) {
      radio.checked = radio.value === chosenKind();
      radio.addEventListener("change", () => { choose("kind", radio.value); page.draw("map"); });
    }
  }

  function begin() {
    find("zone").textContent = `Times are shown in the time zone ${Intl.DateTimeFormat().resolvedOptions().timeZone}.` +
      (written ? ` Written ${exact(written.made).slice(0, 19)}.` : "");
    setUpCopying();
    const name = written ? written.name : location.pathname.startsWith("/view/") ? decodeURIComponent(location.pathname.slice(6)) : null;
    if (name === null) { setUpTheme(() => {}); list(); return; }
    const page = new StudyPage(name);
    setUpTheme(() => page.redraw());
    setUpFigures();
    page.watchSight();
    setUpChoices(page);
    page.begin();
  }

  begin();
})();

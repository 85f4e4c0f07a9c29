// The page of one study: its choices, its view, and how both get into the document.
"use strict";

Ebbtide.study = (() => {
  const { count } = Ebbtide.format;
  const { Refused, Lost } = Ebbtide.source;
  const { find, element, mode, written, source, moment, status, problem, command, askForToken } = Ebbtide.parts;
  const { algorithm } = Ebbtide.studies;
  const { FIGURES, setUpFigures, pause, fetchPlotly, plotly, draw } = Ebbtide.drawing;

  const REFRESH_MS = 1000; // between two views at least, and three times as long as a view takes
  const IDLE_MS = 15000; // the model changes with time even if nothing happens
  const LENGTHS = [250, 1000, 5000, null]; // observations to show; null means all

  // --- choices, kept in the URL -------------------------------------------------------------------------------

  const choices = new URLSearchParams(location.hash.slice(1));
  function choose(name, chosen) {
    if (chosen === null) choices.delete(name);
    else choices.set(name, chosen);
    history.replaceState(null, "", `#${choices}`);
  }
  const chosenLast = () => {
    const given = Number(choices.get("last") ?? LENGTHS[0]);
    return LENGTHS.includes(given) ? given : null;
  };
  const MAP = ["parameter", "across", "context"]; // what is chosen of it, besides its colour
  const chosenMap = () => Object.fromEntries(MAP.map((name) => [name, choices.get(name)]));
  const chosenKind = () => (choices.get("kind") === "std" ? "std" : "mean");

  class StudyPage {
    constructor(name) {
      this.name = name;
      this.view = this.trail = null;
      this.fetching = this.again = this.trailing = false;
      this.timer = 0;
      this.heard = [0, 0]; // asks and tells, according to the stream
      [this.inSight, this.drawn, this.stale] = [new Set(), new Set(), new Set()];
    }

    begin() {
      document.title = `${this.name} · ebbtide`;
      find("crumb").textContent = ` / ${this.name}`;
      find("study").querySelector("h1").textContent = this.name;
      this.refresh();
      if (written) {
        status("", "");
        return;
      }
      status("Connecting", "");
      source.follow(this.name, {
        connected: () => {
          status("live", "live");
          this.refresh();
        },
        news: (asked, told) => {
          this.heard = [asked, told];
          this.soon();
        },
        lost: () =>
          status(
            this.view
              ? "Connection lost; trying again. The page shows the last known state"
              : "Cannot reach the service; trying again",
            "lost",
          ),
        refused: (error) => this.refused(error),
      });
      document.addEventListener("visibilitychange", () => {
        if (!document.hidden) this.refresh();
      });
    }

    refused(error) {
      if (error.status === 401 || error.status === 403) return askForToken(() => this.begin(), error);
      if (error.status === 404) return problem(`There is no study “${this.name}”`, "It was deleted, or never created.");
      return problem("The service refused", error.message);
    }

    // Fetch the view again, but not more often than a person can follow.
    soon() {
      if (this.timer || document.hidden) return;
      const wait = Math.max(REFRESH_MS, 3 * (this.took ?? 0)) - (performance.now() - (this.fetched ?? -Infinity));
      this.timer = setTimeout(
        () => {
          this.timer = 0;
          this.refresh();
        },
        Math.max(0, wait),
      );
    }

    async refresh() {
      if (this.fetching) {
        this.again = true;
        return;
      }
      this.fetching = true;
      const began = (this.fetched = performance.now());
      const last = chosenLast();
      try {
        const view = await source.study(this.name, last, chosenMap());
        this.behind = view.study.asked < this.heard[0] || view.study.told < this.heard[1]; // a shared view, a moment old
        if (this.trail?.last !== last) this.trail = null;
        this.view = { ...view, last };
        await this.show();
        this.fetchTrail(last);
      } catch (error) {
        if (error instanceof Refused && error.status === 422 && MAP.some((name) => choices.has(name))) {
          for (const name of MAP) choices.delete(name);
          this.again = true;
        } else if (error instanceof Refused && error.status < 500) this.refused(error);
        else if (error instanceof Lost || error instanceof Refused)
          this.soon(); // the connection is lost, which the stream reports, or the service is busy
        else throw error;
      } finally {
        this.took = performance.now() - began;
        this.fetching = false;
      }
      clearTimeout(this.idle);
      if (!written)
        this.idle = setTimeout(() => {
          if (!document.hidden) this.refresh();
        }, IDLE_MS);
      if (this.again) {
        this.again = false;
        this.refresh();
      } else if (this.behind) this.soon();
    }

    // Past recommendations come a few at a time.
    async fetchTrail(last) {
      if (this.trailing || !this.view.model || this.view.study.told === 0) return;
      this.trailing = true;
      try {
        let trail;
        do {
          trail = await source.trail(this.name, last);
          if (chosenLast() !== last) return;
          const grown = this.trail?.last !== last || trail.time.at(-1) !== this.trail.time.at(-1);
          this.trail = { ...trail, last };
          if (grown || !trail.missing) this.draw("map"); // not for each part that comes in between
        } while (trail.missing);
      } catch (error) {
        if (!(error instanceof Refused) && !(error instanceof Lost)) throw error;
      } finally {
        this.trailing = false;
      }
    }

    async show() {
      const { study, model } = this.view;
      find("problem").hidden = find("token").hidden = true;
      find("study").hidden = false;
      find("about").replaceChildren(
        `${study.direction === "maximize" ? "Maximizes" : "Minimizes"} by ${algorithm(study)}, created `,
        moment(study.created, true),
      );
      const nothing = study.told === 0;
      find("first").hidden = !nothing;
      find("pictures").hidden = nothing;
      Ebbtide.facts.show(this.view);
      Ebbtide.controls.show(this.view, choices.get("context"), (name, chosen) => this.choose(name, chosen));
      if (nothing) return this.showFirst();
      find("map").hidden = !model;
      find("context").hidden = !study.context;
      find("constraints").hidden = !Object.keys(study.constraints).length;
      await pause(); // the text can be read before Plotly starts,
      await plotly();
      await pause(); // and before the first figure
      await this.redraw();
    }

    // One figure at a time, so that the page stays responsive; those out of sight when they are scrolled into view.
    async redraw() {
      if (!window.Plotly || !this.view || this.view.study.told === 0) return; // everything is drawn once Plotly has started
      const turn = (this.turn = (this.turn ?? 0) + 1);
      this.stale = new Set(Object.keys(FIGURES));
      for (const id of Object.keys(FIGURES)) {
        if (this.inSight.has(id) || !this.drawn.has(id)) this.draw(id);
        await pause();
        if (this.turn !== turn) return;
      }
    }

    draw(id) {
      if (!window.Plotly || find(id).hidden) return;
      this.stale.delete(id);
      this.drawn.add(id);
      draw(
        id,
        id === "map" ? Ebbtide.figures.map(this.view, chosenKind(), this.trail) : Ebbtide.figures[id](this.view),
      );
    }

    trackSight() {
      const observer = new IntersectionObserver(
        (changes) => {
          for (const { target, isIntersecting } of changes) {
            this.inSight[isIntersecting ? "add" : "delete"](target.id);
            if (isIntersecting && this.stale.has(target.id)) this.draw(target.id);
          }
        },
        { rootMargin: "100px" },
      );
      for (const id of Object.keys(FIGURES)) observer.observe(find(id));
    }

    choose(name, chosen) {
      choose(name, chosen);
      this.refresh();
    }

    showFirst() {
      const hint = find("first").querySelector(".hint"),
        box = find("first").querySelector(".command");
      box.hidden = mode !== "service" || !Ebbtide.figures.isWall(this.view);
      hint.textContent = box.hidden
        ? "Figures appear with the first observation."
        : "Ask what to measure, or tell what you measured. This command tells a first value:";
      if (box.hidden) return;
      const { space, context } = this.view.study,
        middles = (parameters) => Object.fromEntries(Object.entries(parameters).map(([name, each]) => [name, middle(each)]));
      const measured = context ? { context: middles(context) } : {};
      command(box, `/studies/${encodeURIComponent(this.name)}/tell`, { params: middles(space), value: 1.0, ...measured });
    }
  }

  function middle(parameter) {
    if (parameter.choices) return parameter.choices[0];
    if (parameter.step) return parameter.low; // always one of the steps
    const half = parameter.log ? Math.sqrt(parameter.low * parameter.high) : (parameter.low + parameter.high) / 2;
    if (parameter.type === "int") return Math.round(half);
    const rounded = Number(half.toPrecision(4));
    return rounded >= parameter.low && rounded <= parameter.high ? rounded : half;
  }

  function setUpChoices(page) {
    find("last").replaceChildren(
      ...LENGTHS.map((length) => {
        const option = element("option", length === null ? "all observations" : `last ${count(length)} observations`);
        option.value = length ?? "all";
        return option;
      }),
    );
    find("last").value = chosenLast() ?? "all";
    find("last").addEventListener("change", () => {
      choose("last", find("last").value);
      page.refresh();
    });
    for (const name of ["parameter", "across"])
      find(name).addEventListener("change", () => page.choose(name, find(name).value || null));
    for (const radio of document.querySelectorAll("input[name=kind]")) {
      radio.checked = radio.value === chosenKind();
      radio.addEventListener("change", () => {
        choose("kind", radio.value);
        page.draw("map");
      });
    }
  }

  // Show a study; returns what to do when the theme changes.
  function show(name) {
    const page = new StudyPage(name);
    fetchPlotly();
    setUpFigures();
    page.trackSight();
    setUpChoices(page);
    page.begin();
    return () => page.redraw();
  }

  return { show };
})();

// The places of the figures, and Plotly, which draws into them.
"use strict";

Ebbtide.drawing = (() => {
  const { Lost } = Ebbtide.source;
  const { find, element } = Ebbtide.parts;

  const CONFIG = { displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset" };

  const FIGURES = {
    objective: "Objective",
    constraints: "Constraints",
    context: "Context",
    map: "What the model believes",
    size: "Dataset",
    relevance: "Relevance of active observations",
    timescale: "Timescale",
    lengthscale: "Lengthscales",
    noise: "Noise",
    response: "Response time",
  };

  function setUpFigures() {
    for (const [id, title] of Object.entries(FIGURES)) {
      const plot = element("div", undefined, "plot"),
        heading = element("h2", title);
      heading.id = `${id}-title`;
      find(id).setAttribute("aria-labelledby", heading.id);
      plot.setAttribute("role", "img");
      find(id).prepend(heading);
      find(id).append(element("p", undefined, "keys"), plot, element("figcaption"));
    }
  }

  const pause = () => new Promise((resolve) => setTimeout(resolve));

  // Plotly takes a second to start. It is fetched at once, but starts after the text is shown; a report contains it.
  const address = document.documentElement.dataset.plotly;
  const complete = new Promise((resolve) => addEventListener("load", resolve));
  let fetched = complete,
    begun = null;
  function fetchPlotly() {
    if (address) fetched = fetch(address).catch(() => {});
  }
  function plotly() {
    begun ??= fetched.then(() => (address ? begin(address) : undefined));
    return begun;
  }
  const begin = (source) =>
    new Promise((resolve, reject) => {
      const script = element("script");
      script.onload = resolve;
      script.onerror = () => {
        begun = null;
        reject(new Lost("Plotly could not be fetched"));
      };
      script.src = source;
      document.head.append(script);
    });

  function draw(id, figure) {
    const plot = find(id).querySelector(".plot"),
      caption = find(id).querySelector("figcaption");
    caption.textContent = figure.caption ?? "";
    if (figure.empty) {
      Plotly.purge(plot);
      plot.replaceChildren(element("p", figure.empty));
      plot.classList.add("blank");
      plot.setAttribute("aria-label", figure.empty);
      return;
    }
    if (plot.classList.contains("blank")) {
      plot.replaceChildren();
      plot.classList.remove("blank");
    }
    plot.setAttribute("aria-label", figure.label);
    if (figure.height) plot.style.height = `${figure.height}px`;
    find(id)
      .querySelector(".keys")
      .replaceChildren(...(figure.keys ?? []).map(([mark, name]) => element("span", name, `key ${mark}`)));
    figure.layout.xaxis.nticks = Math.max(3, Math.floor(plot.clientWidth / 110));
    Plotly.react(plot, figure.data, figure.layout, CONFIG);
  }

  return { FIGURES, setUpFigures, pause, fetchPlotly, plotly, draw };
})();

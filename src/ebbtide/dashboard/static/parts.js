// What every page is made of: elements, the theme, ages of moments, the status, the token. Names only ever become
// text, never markup.
"use strict";

Ebbtide.parts = (() => {
  const { number, ago, exact, quoted } = Ebbtide.format;
  const find = (id) => document.getElementById(id);
  const root = document.documentElement,
    mode = root.dataset.mode; // service, file or report
  const written = mode === "report" ? Ebbtide.source.written() : null;
  const source = written ?? Ebbtide.source.service;

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  const row = (cells) => {
    const made = element("tr");
    made.append(...cells);
    return made;
  };

  // --- theme ------------------------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  function remembered() {
    try {
      return localStorage.getItem("ebbtide theme") ?? "auto";
    } catch {
      return "auto";
    }
  }
  function dress() {
    const wanted = find("theme").value;
    root.dataset.theme = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
  }
  function setUpTheme(redraw) {
    find("theme").value = remembered();
    find("theme").addEventListener("change", () => {
      try {
        localStorage.setItem("ebbtide theme", find("theme").value);
      } catch {
        /* a page from a file may not store it */
      }
      dress();
      redraw();
    });
    dark.addEventListener("change", () => {
      dress();
      redraw();
    });
    dress();
  }

  // --- shared parts -------------------------------------------------------------------------------------------------

  // A moment, as how long ago it was, with the exact time on hover. It is updated every second.
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
  const age = (made) => {
    made.textContent = ago(Math.max(0, present() - Number(made.dataset.time)));
  };
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
        setTimeout(() => {
          button.textContent = "Copy";
        }, 1500);
      });
    }
  }

  function command(box, path, body) {
    const token = source.hasToken() ? ` \\\n  -H "Authorization: Bearer $EBBTIDE_TOKEN"` : "";
    const json = JSON.stringify(body);
    box.querySelector("pre").textContent =
      `curl ${quoted(location.origin + path)} -H 'Content-Type: application/json'${token} \\\n  -d ${quoted(json)}`;
  }

  // Ask for the service's token, then begin again.
  function askForToken(begin, { status, message }) {
    const form = find("token");
    if (!form.hidden) return; // another request was also refused
    for (const id of ["studies", "study", "problem"]) find(id).hidden = true;
    form.querySelector(".wrong").textContent = !source.hasToken() ? "" : status === 401 ? "That token is wrong." : message;
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

  return {
    find,
    element,
    row,
    mode,
    written,
    source,
    setUpTheme,
    moment,
    status,
    problem,
    setUpCopying,
    command,
    askForToken,
  };
})();

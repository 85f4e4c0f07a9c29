// Which page this is.
"use strict";

(() => {
  const { find, written, setUpTheme, setUpCopying } = Ebbtide.parts;
  const zone = `Times are shown in the time zone ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`;
  find("zone").textContent = written ? `${zone} Written ${Ebbtide.format.exact(written.made).slice(0, 19)}.` : zone;
  const path = location.pathname,
    named = path.startsWith("/view/") ? decodeURIComponent(path.slice("/view/".length)) : null;
  const name = written ? written.name : named;
  if (written) find("home").removeAttribute("href"); // a report has no list to go back to
  let redraw = () => {};
  setUpTheme(() => redraw());
  setUpCopying();
  if (name === null) Ebbtide.studies.show();
  else redraw = Ebbtide.study.show(name);
})();

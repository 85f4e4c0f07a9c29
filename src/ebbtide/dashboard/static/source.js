// Where the views come from: a running service, or the report that contains them.
"use strict";

Ebbtide.source = (() => {
  const RETRY_MS = [500, 1000, 2000, 4000]; // between attempts to reach the service again
  const SILENT_MS = 40000; // without even a comment: the connection is dead
  const LONGEST_ID = 1 << 16; // characters of the stream that are kept to find the last id
  const KEY = "ebbtide token";
  const LISTED = 1000; // studies on a page

  class Refused extends Error {
    constructor(status, message) {
      super(message);
      this.status = status;
    }
  }

  class Lost extends Error {} // the service cannot be reached

  // --- the service ----------------------------------------------------------------------------------------

  async function call(path, options = {}) {
    const token = sessionStorage.getItem(KEY);
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await reached(fetch(path, { headers, cache: "no-store", ...options }));
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, body.error ? body.error.message : `the service answered ${answer.status}`);
  }

  const at = (name) => `/studies/${encodeURIComponent(name)}`;
  const query = (values) => new URLSearchParams(Object.entries(values).filter(([, given]) => given !== null));
  const reached = (promise) =>
    promise.catch((error) => {
      throw new Lost(error.message);
    });
  const get = async (path) => {
    const answer = await call(path);
    return reached(answer.json());
  };

  // Calls `news` with the numbers of asks and tells when something happened, `connected` when the connection is open,
  // `lost` when it is not.
  async function follow(name, { news, connected, lost, refused }) {
    for (let attempt = 0; ; attempt += 1) {
      const ending = new AbortController();
      let silence = 0;
      const listen = () => {
        clearTimeout(silence);
        silence = setTimeout(() => ending.abort(), SILENT_MS);
      };
      try {
        listen();
        const answer = await call(`${at(name)}/events`, { signal: ending.signal });
        const reader = answer.body.getReader(),
          decoder = new TextDecoder();
        let heard = "";
        attempt = 0;
        connected();
        for (let part = await reached(reader.read()); !part.done; part = await reached(reader.read())) {
          listen();
          heard = (heard + decoder.decode(part.value, { stream: true })).slice(-LONGEST_ID);
          const ids = [...heard.matchAll(/^id: (\d+)\.(\d+)$/gm)];
          if (!ids.length) continue;
          const [id, asked, told] = ids.at(-1);
          heard = heard.slice(ids.at(-1).index + id.length);
          news(Number(asked), Number(told));
        }
      } catch (error) {
        if (error instanceof Refused && error.status < 500 && error.status !== 429) return refused(error);
        if (!(error instanceof Refused) && !(error instanceof Lost)) throw error;
      } finally {
        clearTimeout(silence);
      }
      lost();
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]));
    }
  }

  const service = {
    studies: (after) => get(`/studies?${query({ limit: LISTED, after })}`),
    study: (name, last, map) => get(`${at(name)}/view?${query({ last, ...map })}`),
    trail: (name, last) => get(`${at(name)}/trail?${query({ last })}`),
    follow,
    useToken: (token) => sessionStorage.setItem(KEY, token),
    dropToken: () => sessionStorage.removeItem(KEY),
    hasToken: () => sessionStorage.getItem(KEY) !== null,
  };

  // --- a report -------------------------------------------------------------------------------------------

  function written() {
    const report = JSON.parse(document.getElementById("report").textContent);
    return {
      study: async (name, last, { parameter, across }) => {
        const { view, maps: overTime } = report.lengths[last ?? "all"];
        const maps = Object.hasOwn(report.across, across) ? report.across[across] : overTime;
        const map = Object.hasOwn(maps, parameter) ? maps[parameter] : Object.values(maps)[0];
        return view.model ? { ...view, model: { ...view.model, map } } : view;
      },
      trail: async (name, last) => report.lengths[last ?? "all"].trail,
      name: report.name,
      made: report.made,
    };
  }

  return { service, written, Refused, Lost };
})();

// Draws the values of one sensor: windows with their least, average and most value, from a query for the past and from
// a stream of events for what arrives. It keeps the overview and the table new as well; without it they are as new as
// the page.

const figure = document.getElementById("figure");
if (figure) start(figure);

function start(figure) {
  const { match, unit } = figure.dataset, step = Number(figure.dataset.step), alarm = Number(figure.dataset.alarm);
  const box = document.getElementById("chart"), caption = document.getElementById("caption");
  const name = caption.textContent.split(":")[0], most = 360;
  const selects = "match=" + encodeURIComponent(match);
  let windows = new Map(), newest = null, waiting = null, plot = null, drawing = false;

  function add([, time, value]) {
    if (typeof value !== "number") return; // "NaN" and the like
    const at = Math.floor(time / 1000 / step) * step;
    const w = windows.get(at) ?? { sum: 0, count: 0, min: value, max: value };
    windows.set(at, { sum: w.sum + value, count: w.count + 1, min: Math.min(w.min, value), max: Math.max(w.max, value) });
    if (!newest || time >= newest.time) newest = { time, value };
  }

  // load replaces what is shown by what is stored. Values that arrive meanwhile are added afterwards.
  async function load() {
    waiting = [];
    const query = `/series/factory?${selects}&from=${figure.dataset.from}&step=${step}s&agg=avg,min,max,count,last`;
    const answer = await fetch(query);
    if (!answer.ok) throw new Error(answer.statusText);
    const [s] = (await answer.json()).series;
    windows = new Map();
    newest = null;
    s?.times.forEach((time, i) => {
      if (typeof s.avg[i] !== "number") return;
      windows.set(time / 1000, { sum: s.avg[i] * s.count[i], count: s.count[i], min: s.min[i], max: s.max[i] });
      newest = { time, value: s.last[i] };
    });
    waiting.forEach(add);
    waiting = null;
    draw();
  }

  function draw() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      const times = [...windows.keys()].sort((a, b) => a - b).slice(-most);
      for (const at of windows.keys()) if (at < times[0]) windows.delete(at);
      const all = times.map((at) => windows.get(at));
      const limit = all.some((w) => w.max > alarm) ? alarm : null; // otherwise the scale would be too wide
      const data = [times, all.map((w) => w.max), all.map((w) => w.min), all.map((w) => w.sum / w.count), all.map(() => limit)];
      plot ??= make(data);
      plot.setData(data);
      if (!newest) return;
      caption.textContent = `${name}: ${newest.value.toFixed(1)} ${unit} at ${new Date(newest.time).toISOString().slice(11, 19)} UTC` +
        (newest.value > alarm ? `, above the limit of ${alarm} ${unit}` : "") + `. Average, least and most of each ${step} seconds.`;
      figure.dataset.newest = newest.value;
    });
  }

  // color returns the color that a variable of the style sheet has now.
  function color(variable) {
    box.style.color = `var(${variable})`;
    return getComputedStyle(box).color;
  }

  const width = () => Math.max(200, box.clientWidth);

  function make(data) {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    const accent = color("--accent"), band = color("--band"), wrong = color("--wrong");
    return new uPlot({
      width: width(), height: 256, legend: { show: false }, cursor: { y: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [{ ...axis, space: 70, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] }, { ...axis, size: 56 }],
      series: [{}, { stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } }, { stroke: accent, width: 2 }, { stroke: wrong, dash: [6, 6], points: { show: false } }],
      bands: [{ series: [1, 2], fill: band }],
    }, data, box);
  }

  function again() {
    plot?.destroy();
    plot = null;
    draw();
  }

  // The page is read again at most every two seconds; what a keyboard is on stays.
  let soon = null, stale = false;
  function refresh() {
    stale = true;
    soon ??= setTimeout(async () => {
      stale = false;
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const href = document.activeElement?.getAttribute("href");
        const status = document.getElementById("status"), text = page.getElementById("status")?.textContent;
        if (text && text !== status.textContent) status.textContent = text; // which screen readers announce
        for (const id of ["kinds", "newest"]) {
          const now = document.getElementById(id), next = page.getElementById(id);
          if (!next) continue;
          const focused = now.contains(document.activeElement);
          now.replaceWith(next);
          if (focused && href) next.querySelector(`[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
        }
      } catch {
        // The server cannot be reached: the stream says when it can.
      } finally {
        soon = null;
        if (stale) refresh(); // values have arrived meanwhile
      }
    }, 2000);
  }

  let events = null;
  function listen() {
    events = new EventSource(`/series/factory/live?${selects}`);
    events.addEventListener("open", () => load().then(refresh, (error) => {
      waiting = null;
      caption.textContent = `${name}: the values cannot be loaded (${error.message}). Reload the page.`;
    }));
    events.addEventListener("samples", (event) => {
      const samples = JSON.parse(event.data);
      if (waiting) return waiting.push(...samples);
      samples.forEach(add);
      draw();
      refresh();
    });
  }

  listen();
  addEventListener("resize", () => plot?.setSize({ width: width(), height: 256 }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => event.persisted && listen());
}

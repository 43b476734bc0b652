// Loads the page anew when a file or the server has changed since the page was made.
// In debug mode only.
"use strict";
(() => {
  const { files } = document.currentScript.dataset;
  let first, events;
  const listen = () => {
    events = new EventSource("/_dev/reload");
    events.addEventListener("state", (e) => {
      first ??= e.data; // of whichever node is asked; the page may be another one's
      if (first !== e.data || !e.data.endsWith("-" + files)) location.reload();
    });
    events.addEventListener("error", () => {
      // What breaks off is tried again by itself; what was refused is not.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 500);
    });
  };
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", listen);
})();

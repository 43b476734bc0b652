// Loads the page anew when a file or the server has changed. In debug mode only.
"use strict";
(() => {
  let first, events;
  const listen = () => {
    events = new EventSource("/_dev/reload");
    events.addEventListener("state", (e) => {
      if (first === undefined) first = e.data;
      else if (first !== e.data) location.reload();
    });
    events.addEventListener("error", () => {
      // What breaks off is tried again by itself; what was refused is not.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 500);
    });
  };
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", listen);
})();

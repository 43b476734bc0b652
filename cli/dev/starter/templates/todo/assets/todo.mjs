// Makes the list live: forms marked with data-live are sent without a new page, and
// what changes in another window or on another machine shows at once. Without this
// script everything works as well, a page at a time.

// show takes the list from a page, unless that is older than what is shown.
async function show(answer) {
  if (answer.redirected || answer.status === 401) return location.reload(); // leads to the login
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = document.getElementById("list"), next = page.getElementById("list");
  if (!next) return complain(page.querySelector(".wrong")?.textContent ?? answer.statusText);
  if (Number(next.dataset.position) < Number(now.dataset.position)) return;
  const focused = document.activeElement, lost = now.contains(focused);
  const typed = now.querySelector("[name=find]").value;
  now.replaceWith(next);
  next.querySelector("[name=find]").value = typed;
  if (lost) (document.getElementById(focused.id) ?? next).focus({ preventScroll: true });
}

function complain(text) {
  const p = document.createElement("p");
  p.className = "wrong";
  p.role = "alert";
  p.textContent = text;
  const list = document.getElementById("list");
  list.querySelector(".wrong")?.remove();
  list.prepend(p);
}

const html = { Accept: "text/html" };
const refresh = async () => show(await fetch(location.href, { headers: html }));
const offline = () => complain("The server cannot be reached. Nothing may have changed: look before you try again.");

addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-live]")) return;
  event.preventDefault();
  try {
    const body = new URLSearchParams(new FormData(form, event.submitter));
    const answer = await fetch(form.action, { method: "POST", body, headers: html, redirect: "manual" });
    if (answer.type !== "opaqueredirect") return await show(answer);
    form.reset();
    await refresh();
  } catch {
    offline();
  }
});

const list = document.getElementById("list");
if (list) {
  const events = new EventSource("/events?after=" + list.dataset.position);
  events.addEventListener("changed", (event) => {
    if (Number(event.lastEventId) > Number(document.getElementById("list").dataset.position)) refresh().catch(offline);
  });
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

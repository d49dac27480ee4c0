const all = [...document.querySelectorAll(".turn")];
const sections = [...document.querySelectorAll("section")];
const picks = [...document.querySelectorAll(".topics .pick, .lanes .pick")];
const [search, state, count, clear] = ["search", "state", "count", "clear"].map((id) => document.getElementById(id));
const words = new Map();
const text = (turn) => words.get(turn) ?? words.set(turn, turn.textContent.toLowerCase()).get(turn);
let topic = "";
const apply = () => {
  const wanted = search.value.trim().toLowerCase();
  let shown = 0;
  for (const turn of all) {
    const hit = (!topic || turn.dataset.t === topic) && (!state.value || turn.dataset.s.includes(state.value))
      && (!wanted || text(turn).includes(wanted));
    turn.hidden = !hit;
    shown += hit;
  }
  for (const section of sections) section.hidden = !section.querySelector(".turn:not([hidden])");
  for (const pick of picks) pick.setAttribute("aria-pressed", pick.dataset.t === topic);
  clear.hidden = !topic;
  count.textContent = `${shown} of ${all.length} shown${topic ? `, topic ${topic}` : ""}`;
};
const reveal = (turn) => {
  if (!turn) return;
  if (turn.hidden) {
    topic = search.value = state.value = "";
    apply();
  }
  turn.scrollIntoView({ block: "center" });
};
document.addEventListener("click", (event) => {
  const pick = event.target.closest(".pick");
  if (pick) {
    topic = topic === pick.dataset.t ? "" : pick.dataset.t;
    apply();
  }
  const link = event.target.closest("a[href^='#t']");
  if (link) reveal(document.getElementById(link.getAttribute("href").slice(1)));
});
const band = document.querySelector(".scroll svg");
band.addEventListener("click", (event) => {
  const at = Math.floor((event.clientX - band.getBoundingClientRect().left) / Number(band.dataset.each));
  const turn = document.getElementById(`t${Number(band.dataset.first) + at}`);
  reveal(turn);
  if (turn) location.hash = turn.id;
});
clear.addEventListener("click", () => { topic = ""; apply(); });
for (const field of [search, state]) field.addEventListener("input", apply);
document.querySelector(".filters").hidden = false;
apply();

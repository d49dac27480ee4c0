const filters = document.querySelector(".filters");
if (filters) {
  const all = [...document.querySelectorAll(".q")];
  const words = new Map();
  const text = (q) => words.get(q) ?? words.set(q, q.textContent.toLowerCase()).get(q);
  const [search, kind, state, count] = ["search", "kind", "state", "count"].map((id) => document.getElementById(id));
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const q of all) {
      const hit = (!kind.value || q.dataset.k === kind.value) && (!state.value || q.dataset.s.includes(state.value))
        && (!wanted || text(q).includes(wanted));
      q.hidden = !hit;
      shown += hit;
    }
    count.textContent = `${shown} of ${all.length} shown`;
  };
  for (const field of [search, kind, state]) field.addEventListener("input", apply);
  filters.hidden = false;
  apply();
}

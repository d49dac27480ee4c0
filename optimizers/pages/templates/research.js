const open = () => {
  const at = location.hash && document.getElementById(location.hash.slice(1));
  const details = at && at.closest("details");
  if (details) details.open = true;
  if (at) at.scrollIntoView({ block: "center" });
};
addEventListener("hashchange", open);
open();

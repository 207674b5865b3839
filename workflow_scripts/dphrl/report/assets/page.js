// Opens the folded section that a link leads to, and all sections for printing.
function openLinked() {
  document.getElementById(location.hash.slice(1))?.closest("details.fold")?.setAttribute("open", "");
}

addEventListener("hashchange", openLinked);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => (fold.open = true)));
openLinked();

// Code and tables that scroll are reached by the keyboard too, and the search has a name.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("pre > code, .md-typeset__scrollwrap").forEach((box) => (box.tabIndex = 0));
});

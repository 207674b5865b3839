// Draws every figure to the width of its box, and again when the window is resized.
const charts = [...document.querySelectorAll(".chart")];
// Expressions are interpreted and all styles are in the page's style sheet, so its security policy can forbid the rest.
const options = {
  renderer: "svg",
  mode: "vega-lite",
  ast: true,
  defaultStyle: false,
  forceActionsMenu: true,
  tooltip: { theme: "light", disableDefaultStyle: true },
  actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
};

// As many columns of panels and of legend entries as fit. A chart without facets stays as it is.
function withColumns(spec, available) {
  const copy = structuredClone(spec);
  delete copy.title;
  if (!copy.spec) return copy;
  copy.config = { ...copy.config, legend: { ...copy.config?.legend } };
  copy.config.legend.columns = Math.max(1, Math.floor(available / 115));
  const fitting = Math.floor(available / (0.8 * copy.spec.width + 60));
  copy.columns = Math.max(1, Math.min(copy.columns, fitting));
  return copy;
}

// Panels as wide as the available width allows, given the width that a first drawing needed for axes and labels.
function withPanelWidth(spec, available, drawn) {
  if (!spec.spec) return spec;
  const labels = drawn - spec.columns * spec.spec.width;
  const panel = Math.floor((available - labels) / spec.columns);
  return { ...spec, spec: { ...spec.spec, width: Math.max(120, Math.min(panel, 560)) } };
}

async function draw(chart) {
  const spec = JSON.parse(document.getElementById(chart.dataset.spec).textContent);
  const available = chart.clientWidth - 2 * parseFloat(getComputedStyle(chart).paddingLeft);
  if (chart.dataset.available === String(available)) return;
  chart.dataset.available = String(available);
  try {
    chart.finalize?.();
    const first = withColumns(spec, available);
    const trial = await vegaEmbed(chart, first, options);
    const drawn = chart.querySelector("svg.marks").getBoundingClientRect().width;
    trial.finalize();
    const result = await vegaEmbed(chart, withPanelWidth(first, available, drawn), options);
    chart.finalize = () => result.finalize();
    chart.querySelector("summary").ariaLabel = "Save this figure";
    chart.dataset.drawn = "true";
  } catch (error) {
    console.error(chart.dataset.spec, error);
    chart.innerHTML = "";
    const message = document.createElement("p");
    message.className = "failed";
    message.textContent = `This figure could not be drawn: ${error.message}`;
    chart.append(message);
  }
}

for (const chart of charts) await draw(chart);
let timer = 0;
addEventListener("resize", () => {
  clearTimeout(timer);
  timer = setTimeout(() => charts.forEach(draw), 200);
});

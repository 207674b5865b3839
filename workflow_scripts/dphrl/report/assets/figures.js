// Draws every figure to the width of its box, and again when the window is resized.
const charts = [...document.querySelectorAll(".chart")];
const buttons = [...document.querySelectorAll("button.hide")];
const policies = new Set(buttons.map((button) => button.dataset.policy));
const hidden = new Set();
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

// The rows of the policies that are shown; the legend keeps all, those that are hidden in grey.
function withoutHidden(spec) {
  const copy = structuredClone(spec);
  for (const [name, rows] of Object.entries(copy.datasets ?? {})) {
    copy.datasets[name] = rows.filter((row) => !hidden.has(row.policy));
  }
  for (const { encoding } of copy.spec?.layer ?? []) {
    const scale = encoding?.color?.field === "policy" && encoding.color.scale;
    if (scale) scale.range = scale.range.map((colour, place) => (hidden.has(scale.domain[place]) ? "#d5d9de" : colour));
  }
  return copy;
}

// A click on a policy in the legend, whose items have the name as their label, hides it.
function onClick(event, item) {
  const name = item?.mark?.role?.startsWith("legend") && item.datum?.label;
  if (name && policies.has(name)) toggle(name);
}

async function draw(chart) {
  const available = chart.clientWidth - 2 * parseFloat(getComputedStyle(chart).paddingLeft);
  const state = [available, ...hidden].join();
  // In a closed section a chart has no width.
  if (available <= 0 || chart.dataset.state === state) return;
  chart.dataset.state = state;
  const spec = withoutHidden(JSON.parse(document.getElementById(chart.dataset.spec).textContent));
  try {
    chart.finalize?.();
    const first = withColumns(spec, available);
    const trial = await vegaEmbed(chart, first, options);
    const drawn = chart.querySelector("svg.marks").getBoundingClientRect().width;
    trial.finalize();
    const result = await vegaEmbed(chart, withPanelWidth(first, available, drawn), options);
    result.view.addEventListener("click", onClick);
    chart.finalize = () => result.finalize();
    chart.querySelector("summary").ariaLabel = "Save this figure";
    chart.dataset.drawn = "true";
  } catch (error) {
    console.error(chart.dataset.spec, error);
    const message = document.createElement("p");
    message.className = "failed";
    message.textContent = `This figure could not be drawn: ${error.message}`;
    chart.replaceChildren(message);
  }
}

async function drawAll() {
  for (const chart of charts) await draw(chart);
}

function toggle(policy) {
  if (!hidden.delete(policy)) hidden.add(policy);
  for (const button of buttons) button.ariaPressed = String(!hidden.has(button.dataset.policy));
  drawAll();
}

for (const button of buttons) button.addEventListener("click", () => toggle(button.dataset.policy));
for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", drawAll);
let timer = 0;
addEventListener("resize", () => {
  clearTimeout(timer);
  timer = setTimeout(drawAll, 200);
});
await drawAll();

"""Scripts of the report page: one draws every figure to the width of its card, one filters the samples."""

FIGURES = """
const charts = [...document.querySelectorAll(".chart")];
// Expressions are interpreted and styles stand in the page's own sheet, so its security policy can forbid the rest.
const options = {
  renderer: "svg",
  mode: "vega-lite",
  ast: true,
  defaultStyle: false,
  forceActionsMenu: true,
  tooltip: { theme: "light", disableDefaultStyle: true },
  actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
};
// A facet panel of the asked width, as many beside each other as fit. A chart without facets stays as it is.
function arranged(spec, room) {
  const copy = structuredClone(spec);
  delete copy.title;
  if (!copy.spec) return copy;
  copy.config = { ...copy.config, legend: { ...copy.config?.legend } };
  copy.config.legend.columns = Math.max(1, Math.floor(room / 115));
  const beside = Math.floor(room / (0.8 * copy.spec.width + 60));
  copy.columns = Math.max(1, Math.min(copy.columns, beside));
  return copy;
}

// The panels widened or narrowed to fill the room, from the width that axes and labels took.
function filled(spec, room, width) {
  if (!spec.spec) return spec;
  const around = width - spec.columns * spec.spec.width;
  const panel = Math.floor((room - around) / spec.columns);
  return { ...spec, spec: { ...spec.spec, width: Math.max(120, Math.min(panel, 560)) } };
}

async function draw(chart) {
  const spec = JSON.parse(document.getElementById(chart.dataset.spec).textContent);
  const room = chart.clientWidth - 2 * parseFloat(getComputedStyle(chart).paddingLeft);
  if (chart.dataset.room === String(room)) return;
  chart.dataset.room = String(room);
  try {
    chart.finalize?.();
    const first = arranged(spec, room);
    const trial = await vegaEmbed(chart, first, options);
    const width = chart.querySelector("svg.marks").getBoundingClientRect().width;
    trial.finalize();
    const result = await vegaEmbed(chart, filled(first, room, width), options);
    chart.finalize = () => result.finalize();
    chart.querySelector("summary").ariaLabel = "Save this figure";
    chart.dataset.drawn = "true";
  } catch (error) {
    console.error(chart.dataset.spec, error);
    chart.innerHTML = "";
    const words = document.createElement("p");
    words.className = "failed";
    words.textContent = `This figure could not be drawn: ${error.message}`;
    chart.append(words);
  }
}

for (const chart of charts) await draw(chart);
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => charts.forEach(draw), 200);
});
"""

SAMPLES = """
const filter = document.getElementById("filter");
const samples = [...document.querySelectorAll(".sample")];
// A prompt is shown while a response of it is.
function apply() {
  const { dataset, policy, verdict } = Object.fromEntries(new FormData(filter));
  for (const sample of samples) {
    for (const one of sample.querySelectorAll(".policy")) {
      const responses = [...one.querySelectorAll(".response")];
      for (const response of responses) response.hidden = Boolean(verdict) && response.dataset.verdict !== verdict;
      one.hidden = (Boolean(policy) && one.dataset.policy !== policy) || responses.every((response) => response.hidden);
    }
    const elsewhere = Boolean(dataset) && sample.dataset.dataset !== dataset;
    sample.hidden = elsewhere || [...sample.querySelectorAll(".policy")].every((one) => one.hidden);
  }
  const shown = samples.filter((sample) => !sample.hidden).length;
  filter.querySelector("output").value = `${shown} of ${samples.length} prompts`;
}
filter.addEventListener("change", apply);
filter.addEventListener("submit", (event) => event.preventDefault());
filter.querySelector("button").addEventListener("click", () => {
  filter.reset();
  apply();
});
filter.hidden = false;
apply();
"""

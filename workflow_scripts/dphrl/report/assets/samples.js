// Filters the samples by dataset, policy and verdict.
const filter = document.getElementById("filter");
const samples = [...document.querySelectorAll(".sample")];

// A prompt is shown as long as one of its responses is.
function apply() {
  const { dataset, policy, verdict } = Object.fromEntries(new FormData(filter));
  for (const sample of samples) {
    for (const one of sample.querySelectorAll(".policy")) {
      const responses = [...one.querySelectorAll(".response")];
      for (const response of responses) response.hidden = Boolean(verdict) && response.dataset.verdict !== verdict;
      one.hidden = (Boolean(policy) && one.dataset.policy !== policy) || responses.every((response) => response.hidden);
    }
    const otherDataset = Boolean(dataset) && sample.dataset.dataset !== dataset;
    sample.hidden = otherDataset || [...sample.querySelectorAll(".policy")].every((one) => one.hidden);
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

// Lists the questions that fit the filter. All text of models and datasets is set as text, never as markup.
const { policies, questions } = JSON.parse(document.getElementById("data").textContent);
const filter = document.getElementById("filter");
const list = document.getElementById("questions");
const more = document.getElementById("more");
const BASE = 0;
const AT_A_TIME = 50;
let matching = [];

function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

// What a policy did with a question, compared with the base.
function changeOf(question, policy) {
  const [base, tuned] = [BASE, policy].map((place) => question.answers[place].right > 0);
  if (base) return tuned ? "kept" : "lost";
  return tuned ? "gained" : "unsolved";
}

// The words of a question, its responses and their verdicts, in lower case; made at the first search.
function wordsOf(question) {
  const responses = question.answers.flatMap((answer) => answer.responses);
  question.words ??= [question.id, question.gold, ...question.messages.flat()]
    .concat(responses.flatMap(({ text, verdict, reason }) => [text, verdict, reason]))
    .join("\n")
    .toLowerCase();
  return question.words;
}

// The places of the chosen policy, or of all policies but the base.
function chosen() {
  const policy = filter.elements.policy.value;
  return policy ? [Number(policy)] : policies.map((_, place) => place).slice(1);
}

function message(role, text) {
  return element("div", "message", element("p", "role", role), element("pre", "", text));
}

function answersOf(place, answer) {
  const column = element("div", "policy", element("h3", "", policies[place]));
  column.append(element("p", "role", `${answer.right} of ${answer.samples} samples right`));
  for (const { greedy, times, verdict, reason, text } of answer.responses) {
    const response = element("div", verdict === "correct" ? "response right" : "response wrong");
    const drawn = greedy ? "greedy" : times === 1 ? "1 sample" : `${times} samples`;
    response.append(element("p", "role", `${drawn}: `, element("strong", "", verdict)), element("pre", "", text));
    if (reason) response.append(element("p", "reason", reason));
    column.append(response);
  }
  return column;
}

function open(question) {
  const columns = [BASE, ...chosen()].map((place) => answersOf(place, question.answers[place]));
  return [
    element("p", "role", `question ${question.id}`),
    ...question.messages.map(([role, text]) => message(role, text)),
    message("gold answer", question.gold),
    element("div", "policies", ...columns),
  ];
}

function fold(question) {
  const counts = [BASE, ...chosen()].map((place) => {
    const { right, samples } = question.answers[place];
    return element("span", right ? "count" : "count none", `${policies[place]} ${right}/${samples}`);
  });
  const asked = element("span", "asked", question.messages.at(-1)[1].trim().slice(0, 160));
  const made = element("details", "question card", element("summary", "", asked, element("span", "counts", ...counts)));
  made.addEventListener("toggle", () => made.childElementCount === 1 && made.append(...open(question)), { once: true });
  return made;
}

function showMore() {
  const shown = list.childElementCount;
  list.append(...matching.slice(shown, shown + AT_A_TIME).map(fold));
  more.hidden = list.childElementCount >= matching.length;
}

function apply() {
  const words = filter.elements.words.value.trim().toLowerCase();
  const change = filter.elements.change.value;
  const places = chosen();
  matching = questions.filter(
    (question) =>
      (!change || places.some((place) => changeOf(question, place) === change)) &&
      (!words || wordsOf(question).includes(words)),
  );
  filter.querySelector("output").value = `${matching.length} of ${questions.length} questions`;
  list.replaceChildren();
  showMore();
}

filter.elements.policy.append(...policies.slice(1).map((name, place) => new Option(name, place + 1)));
// A link may name a policy and a change: in_domain.html#policy=GRPO&change=lost
const linked = new URLSearchParams(location.hash.slice(1));
const place = policies.indexOf(linked.get("policy"));
if (place > BASE) filter.elements.policy.value = place;
if (linked.has("change")) filter.elements.change.value = linked.get("change");
filter.addEventListener("input", apply);
filter.addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", showMore);
apply();

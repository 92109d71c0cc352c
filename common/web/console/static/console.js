// What pages do beyond HTML: times in the reader's zone, live parts, print. All works without it.

const KEPT = "tacit-times";
const WAIT_S = 25;

// --- times ---

let own = localStorage.getItem(KEPT) !== "utc";
const whole = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
  timeZoneName: "short",
});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
});
const seconds = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", timeZoneName: "short",
});
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function showTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    each.dataset.utc ??= each.textContent;
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    each.title = each.dateTime;
    const format = "clock" in each.dataset ? clock : "seconds" in each.dataset ? seconds : whole;
    each.textContent = own ? format.format(at) : each.dataset.utc;
  }
  const button = document.querySelector("[data-zone]");
  if (button && zone !== "UTC") {
    button.hidden = false;
    button.textContent = own ? `times in ${zone}: show UTC` : "times in UTC: show mine";
  }
}

document.querySelector("[data-zone]")?.addEventListener("click", () => {
  own = !own;
  localStorage.setItem(KEPT, own ? "own" : "utc");
  showTimes(document);
});

// --- live parts: one request waits; none while the page is hidden ---

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const visible = () => new Promise((done) => {
  if (!document.hidden) return done();
  document.addEventListener("visibilitychange", done, { once: true });
});

async function follow(part) {
  let tag = null;
  let lost = null;
  let shown = part.innerHTML.trim(); // what is the same is left: a replaced part loses focus and clicks
  while (!("done" in part.dataset)) {
    await visible();
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const wanted = new URL(part.dataset.live, location);
      wanted.searchParams.set("wait_s", tag ? WAIT_S : 0);
      const answer = await fetch(wanted, { headers, redirect: "error" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag");
        const made = document.createElement("template");
        made.innerHTML = await answer.text();
        if (made.innerHTML.trim() !== shown) {
          shown = made.innerHTML.trim();
          const open = [...part.querySelectorAll("details")].map((each) => each.open);
          part.replaceChildren(made.content);
          part.querySelectorAll("details").forEach((each, index) => { each.open ||= open[index] ?? false; });
          showTimes(part);
        }
        if (part.querySelector("[data-finished]")) part.dataset.done = "";
        showPrint();
        showCheck();
      } else if (answer.status !== 304) throw new Error(String(answer.status));
      lost?.remove();
      lost = null;
    } catch {
      if (!lost) {
        lost = document.createElement("p");
        lost.className = "stale";
        lost.setAttribute("role", "status");
        lost.textContent = `Not up to date since ${clock.format(new Date())}; trying on.`;
        part.before(lost);
      }
      await pause(5);
    }
  }
}

for (const part of document.querySelectorAll("[data-live]")) follow(part);

// --- checking a round: `verify.js` judges, this shows ---

const said = (name, words, kind = "") => {
  const made = document.createElement(name);
  made.textContent = words;
  if (kind) made.className = kind;
  return made;
};
const digits = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

async function checkRound(area) {
  const verdict = area.querySelector(".verdict");
  const list = area.querySelector(".checks");
  const tell = (words, kind) => {
    verdict.textContent = words;
    verdict.className = `verdict ${kind}`;
  };
  list.replaceChildren();
  area.querySelector("table")?.remove();
  tell("Checking …", "");
  const began = performance.now();
  // A curator's page brings the keys that its answer went to; a coordinator's are those seen before.
  const kept = "own" in area.dataset ? null : `tacit-known-${area.dataset.deployment}`;
  try {
    const { check } = await import(new URL("verify.js", import.meta.url));
    const answer = await fetch(area.dataset.check, { redirect: "error" });
    if (!answer.ok) throw new Error(`the transcript did not come (${answer.status})`);
    const known = kept && JSON.parse(localStorage.getItem(kept) ?? "null");
    const evidence = await answer.json();
    const pins = known && Object.fromEntries(evidence.transcript.descriptor.statement.aggregators
      .map(({ id }) => [id, known.aggregators[id]]).filter(([, print]) => print));
    const whole = pins && Object.keys(pins).length === evidence.transcript.descriptor.statement.aggregators.length;
    const found = await check({ ...evidence, pins: evidence.pins ?? (whole ? pins : null) }, (title, detail) => {
      const item = document.createElement("li");
      item.append(said("b", `✓ ${title}`), said("span", detail));
      list.append(item);
    });
    if (known && known.coordinator !== found.coordinator) throw new Error("the coordinator is another one than this browser saw before");
    if (kept) localStorage.setItem(kept, JSON.stringify({
      coordinator: found.coordinator,
      aggregators: { ...known?.aggregators, ...found.fingerprints },
    }));
    tell(`Checked in this browser in ${Math.round(performance.now() - began)} ms: the published ${kept ? "result" : "sums"} ${kept ? "is" : "are"} what ${found.partials.length === 1 ? "the aggregator" : `${found.partials.length} aggregators`} committed to.`, "good");
    if (found.total.length === 1) area.append(partialSums(found));
  } catch (error) {
    if (error.name === "NotSupportedError") tell("This browser cannot check Ed25519 signatures: use the command below.", "");
    else tell(`✗ Refused: ${error.message}.`, "bad");
  }
}

function partialSums(found) {
  const table = document.createElement("table");
  table.append(said("caption", found.partials.length === 1
    ? "The aggregator's sum of noisy values is the result, in its smallest steps."
    : "Each aggregator's partial sum alone is a random number. Together, in the arithmetic that returns to 0 behind its largest number, they are the result in its smallest steps."));
  for (const [name, [value]] of [...found.partials, ["together", found.total]]) {
    const row = table.insertRow();
    const head = said("th", name);
    head.scope = "row";
    row.append(head, said("td", digits(value), "number"));
  }
  return table;
}

function showCheck() {
  for (const area of document.querySelectorAll("[data-check]")) {
    const button = area.querySelector("button");
    if (!globalThis.crypto?.subtle) {
      area.querySelector(".verdict").textContent = "Without TLS a browser checks no signatures: use the command below.";
      continue;
    }
    button.hidden = false;
    button.onclick = () => checkRound(area);
  }
}

// --- a slider over the rows of a table ---

for (const area of document.querySelectorAll("[data-slider]")) {
  const slider = area.querySelector("input[type=range]");
  const rows = [...area.querySelectorAll("tbody tr")];
  const filled = document.getElementById(area.dataset.fills);
  const show = () => {
    const cells = [...rows[slider.value].cells];
    for (const each of area.querySelectorAll("[data-cell]")) {
      each.replaceChildren(...cells[each.dataset.cell].cloneNode(true).childNodes);
    }
    slider.setAttribute("aria-valuetext", `${cells[0].dataset.label.toLowerCase()} ${cells[0].textContent}`);
  };
  area.querySelector("[data-slider-shown]").hidden = false;
  area.querySelector("details").open = false;
  slider.addEventListener("input", () => {
    show();
    if (filled) filled.value = rows[slider.value].cells[0].dataset.stop;
  });
  filled?.addEventListener("change", () => { // what is typed and is no stop has no figures here
    const stop = rows.findIndex((row) => row.cells[0].dataset.stop === filled.value.trim());
    if (stop < 0) return area.querySelectorAll("[data-cell]").forEach((each) => { each.textContent = "–"; });
    slider.value = stop;
    show();
  });
  show();
}

// --- a file that is sent: its first rows before, how far it is meanwhile ---

const SAMPLE_BYTES = 65536;
const SAMPLE_ROWS = 5;

async function firstText(file) {
  const plain = /\.gz$/i.test(file.name) ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = plain.getReader();
  const parts = [];
  for (let size = 0; size < SAMPLE_BYTES;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  reader.cancel();
  return new Blob(parts).slice(0, SAMPLE_BYTES).text();
}

async function preview(input) {
  const area = document.querySelector(`[data-preview-of="${input.id}"]`);
  const file = input.files[0];
  area.hidden = true;
  if (!file || /\.(xz|xml)(\.gz)?$/i.test(file.name)) return;
  const at = (name) => input.form.elements[name].value;
  const delimiter = { "": ",", tab: "\t", "\\t": "\t" }[at("delimiter")] ?? at("delimiter");
  const skipped = Math.max(Number(at("header_line") || 1) - 1, 0);
  const cells = (line) => line.split(delimiter).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const lines = (await firstText(file)).replace(/^\ufeff/, "").split(/\r?\n/).slice(skipped, skipped + 1 + SAMPLE_ROWS);
  const [header, ...rows] = lines.filter(Boolean).map(cells);
  if (!header) return;
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const name of header) head.append(Object.assign(said("th", name), { scope: "col" }));
  const body = table.createTBody();
  for (const row of rows) body.insertRow().append(...row.map((cell) => said("td", cell)));
  area.querySelector("div").replaceChildren(table);
  area.hidden = false;
  for (const field of input.form.querySelectorAll("input[list=columns]")) {
    const own = field.name.replace("_column", "");
    if (!field.value && header.includes(own)) field.value = own;
  }
  document.getElementById("columns").replaceChildren(...header.map((name) => Object.assign(document.createElement("option"), { value: name })));
}

for (const input of document.querySelectorAll("[data-preview]")) {
  for (const each of [input, ...["delimiter", "header_line"].map((name) => input.form.elements[name])]) {
    each.addEventListener("change", () => preview(input));
  }
}

for (const sent of document.querySelectorAll("form[data-progress]")) {
  sent.addEventListener("submit", () => {
    const shown = sent.querySelector("[data-progress-shown]");
    const look = async () => {
      const answer = await fetch(sent.dataset.progress, { redirect: "error" }).catch(() => null);
      if (answer?.ok) shown.textContent = await answer.text();
      setTimeout(look, 1000);
    };
    shown.textContent = "Sending …";
    look();
  });
}

// --- copy what is shown once ---

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.onclick = async () => {
    await navigator.clipboard.writeText(document.querySelector("[data-copied]").textContent);
    button.textContent = "Copied";
  };
}

// --- print, and the code of `tacit console` ---

function showPrint() {
  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.onclick = () => print();
  }
}

addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});

const form = document.querySelector("form[data-code]");

function takeCode() {
  if (!form || location.hash.length <= 20) return;
  form.querySelector("[name=code]").value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  const typed = form.querySelector("[name=token]");
  typed.required = false;
  for (const each of [typed, ...typed.labels]) each.hidden = true;
}

addEventListener("hashchange", takeCode);
takeCode();
showTimes(document);
showPrint();
showCheck();

// Checks a released round from its transcript alone: signatures, commitments, the sum, the result.
// Pure: it knows no page and asks nobody. The rules are those of `tacit.protocol.round` and
// `tacit.query.functions`; shared vectors hold both to the same verdicts.

export class Refused extends Error {}

const need = (good, why) => {
  if (!good) throw new Refused(why);
};

// --- bytes ---

const text = new TextEncoder();
const bytes = (value) => {
  need(typeof value === "string" && /^[A-Za-z0-9_-]*=*$/.test(value), "a field is not base64url");
  const plain = atob(value.replace(/=+$/, "").replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (each) => each.charCodeAt(0));
};
export const hex = (value) => Array.from(value, (each) => each.toString(16).padStart(2, "0")).join("");
const sha256 = async (value) => new Uint8Array(await crypto.subtle.digest("SHA-256", value));
const same = (one, other) => hex(one) === hex(other);

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const big4 = (value) => Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
const prefixed = (...fields) => joined(fields.flatMap((field) => [big4(field.length), field]));

// --- the canonical form: sorted keys, no blanks, ASCII, no nulls ---

export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const names = Object.keys(value).filter((name) => value[name] !== null).sort();
    return `{${names.map((name) => `${canonical(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  if (typeof value === "number") need(Number.isSafeInteger(value), "a number is not whole");
  return JSON.stringify(value).replace(/[\u0080-\uffff]/g, (each) =>
    `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const digest = (statement) => sha256(text.encode(canonical(statement)));

async function signedBy(label, signed, key, what) {
  only(signed, ["statement", "signature"], what);
  const message = joined([text.encode(label), Uint8Array.of(0), text.encode(canonical(signed.statement))]);
  let good = false;
  try {
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    good = await crypto.subtle.verify({ name: "Ed25519" }, imported, bytes(signed.signature), message);
  } catch (error) {
    if (error instanceof Refused || error.name === "NotSupportedError") throw error;
  }
  need(good, `${what} is not signed by its key`);
  return signed.statement;
}

function only(object, names, what) {
  need(object !== null && typeof object === "object", `${what} is missing`);
  for (const name of Object.keys(object)) need(names.includes(name), `${what} has a field that no rule knows`);
}

// --- exact numbers: [numerator, denominator] ---

const abs = (value) => (value < 0n ? -value : value);
const common = (one, other) => (other === 0n ? abs(one) : common(other, one % other));
const ratio = (top, bottom) => {
  const shared = common(top, bottom) * (bottom < 0n ? -1n : 1n);
  return [top / shared, bottom / shared];
};
const exact = (value) => {
  const found = /^([+-]?)(\d+)(?:\.(\d+)|\/(\d+))?$/.exec(value);
  need(found, "an amount is not exact");
  const [, sign, whole, places = "", bottom] = found;
  const top = BigInt(whole + places) * (sign === "-" ? -1n : 1n);
  return ratio(top, bottom === undefined ? 10n ** BigInt(places.length) : BigInt(bottom));
};
const plus = ([a, b], [c, d]) => ratio(a * d + c * b, b * d);
const minus = (one, [c, d]) => plus(one, [-c, d]);
const times = ([a, b], [c, d]) => ratio(a * c, b * d);
const over = ([a, b], [c, d]) => ratio(a * d, b * c);

function told([top, bottom]) {
  let rest = bottom, twos = 0, fives = 0;
  for (; rest % 2n === 0n; rest /= 2n) twos += 1;
  for (; rest % 5n === 0n; rest /= 5n) fives += 1;
  const places = Math.max(twos, fives);
  if (rest !== 1n || places > 40) return `${top}/${bottom}`;
  const digits = String((abs(top) * 10n ** BigInt(places)) / bottom).padStart(places + 1, "0");
  const sign = top < 0n ? "-" : "";
  return places ? `${sign}${digits.slice(0, -places)}.${digits.slice(-places)}` : sign + digits;
}

function rounded([top, bottom]) {  // to 12 places, half to even
  const scaled = top * 10n ** 12n;
  let whole = scaled / bottom;
  let rest = scaled - whole * bottom;
  if (rest < 0n) { whole -= 1n; rest += bottom; }
  if (2n * rest > bottom || (2n * rest === bottom && whole % 2n !== 0n)) whole += 1n;
  return told(ratio(whole, 10n ** 12n));
}

// --- the query: its parts, and what an opened total means ---

function partsOf(query) {
  const step = exact(query.resolution), one = [1n, 1n];
  const part = (name, value, dimension = 1) => ({ name, value, dimension });
  const found = {
    sum: () => [part("sum", step)],
    count: () => [part("count", one)],
    mean: () => [part("sum", step), part("count", one)],
    variance: () => [part("sum", step), part("squares", times(step, step)), part("count", one)],
    histogram: () => [part("histogram", one, query.edges.length - 1)],
    table: () => [part("table", query.measure == null ? one : step, query.columns.reduce(
      (cells, column) => cells * (column.codes?.length ?? column.edges.length - 1), 1))],
    vector_sum: () => (query.blocks ?? []).length
      ? query.blocks.map((block) => part(block.name, exact(block.resolution), block.dimension))
      : [part("vector", step, query.dimension)],
  }[query.function];
  need(found, "the function is not known");
  const parts = found();
  return query.completeness == null ? parts : [...parts, part("curators_with_readings", one)];
}

function meaning(query, total) {
  const parts = partsOf(query), result = {};
  let at = 0;
  for (const part of parts) {
    const amounts = total.slice(at, at + part.dimension).map((word) => times([word, 1n], part.value));
    at += part.dimension;
    const list = ["histogram", "table", "vector_sum"].includes(query.function);
    result[part.name] = list && part.name !== "curators_with_readings" ? amounts.map(told) : amounts[0];
  }
  const { curators_with_readings: present, ...groups } = result;
  const extra = present === undefined ? {} : { curators_with_readings: told(present) };
  if (query.function === "sum" || query.function === "count") {
    return { [query.function]: told(groups[query.function]), ...extra };
  }
  if (query.function !== "mean" && query.function !== "variance") return { ...groups, ...percentiles(query, total), ...extra };
  const answer = { count: told(groups.count) };
  if (groups.count[0] < 1n) {
    const none = query.function === "mean" ? { mean: null } : { mean: null, variance: null };
    return { ...answer, ...none, reason: "the noisy count is below 1", ...extra };
  }
  const [low, high] = query.bounds.map(exact), step = exact(query.resolution);
  const mean = over(groups.sum, groups.count);
  const [top, bottom] = over(plus(low, high), times([2n, 1n], step));
  const centre = times([(top - mod(top, bottom)) / bottom, 1n], step);
  answer.mean = rounded(plus(centre, mean));
  if (query.function === "variance") {
    const spread = minus(over(groups.squares, groups.count), times(mean, mean));
    answer.variance = rounded(spread[0] < 0n ? [0n, 1n] : spread);
  }
  return { ...answer, ...extra };
}

function percentiles(query, total) {
  const answer = {}, edges = (query.edges ?? []).map(exact);
  const counts = total.slice(0, edges.length - 1), sums = [0n];
  for (const count of counts) sums.push(sums.at(-1) + count);
  const all = sums.at(-1), lowest = [...sums];
  for (let place = lowest.length - 2; place >= 0; place -= 1) {
    if (lowest[place + 1] < lowest[place]) lowest[place] = lowest[place + 1];
  }
  let highest = 0n;
  const doubled = sums.map((sum, place) => {
    if (sum > highest) highest = sum;
    const both = highest + lowest[place];
    return both < 0n ? 0n : both > 2n * all ? 2n * all : both;
  });
  const below = ([a, b], [c, d]) => a * d < c * b;
  for (const text of query.percentiles ?? []) {
    const percentile = exact(text), target = times([2n * all, 100n], percentile);
    const name = `p${told(percentile)}`;
    if (all < 1n) Object.assign(answer, { [name]: null, reason: "the noisy count is below 1" });
    else if (!below([doubled[0], 1n], target)) answer[name] = rounded(edges[0]);
    else {
      const upper = doubled.findIndex((value) => !below([value, 1n], target));
      const before = [doubled[upper - 1], 1n];
      const part = over(minus(target, before), minus([doubled[upper], 1n], before));
      answer[name] = rounded(plus(edges[upper - 1], times(part, minus(edges[upper], edges[upper - 1]))));
    }
  }
  return answer;
}

// --- sums of partial sums ---

const SHAMIR = (1n << 57n) - 13n;
const FIELDS = { 8: (1n << 64n) - (1n << 32n) + 1n, 16: 340282366920938462946865773367900766209n };
const centred = (value, modulus) => (2n * value > modulus ? value - modulus : value);
const mod = (value, modulus) => ((value % modulus) + modulus) % modulus;

function words(partial, dimension) {
  const size = partial.length / dimension;
  need(size === 8 || size === 16, "a partial sum has the wrong length");
  return Array.from({ length: dimension }, (_, at) => {
    let value = 0n;
    for (let place = size - 1; place >= 0; place -= 1) value = value * 256n + BigInt(partial[at * size + place]);
    return value;
  });
}

function inverse(value, modulus) {
  let [a, b, x, y] = [mod(value, modulus), modulus, 1n, 0n];
  while (b) [a, b, x, y] = [b, a % b, y, x - (a / b) * y];
  return mod(x, modulus);
}

function interpolated(points, at, place) {
  return points.reduce((sum, [x, values]) => {
    let top = 1n, bottom = 1n;
    for (const [other] of points) {
      if (other !== x) [top, bottom] = [mod(top * (at - other), SHAMIR), mod(bottom * (x - other), SHAMIR)];
    }
    return mod(sum + values[place] * top * inverse(bottom, SHAMIR), SHAMIR);
  }, 0n);
}

function combined(query, partials, offset) {
  const dimension = partsOf(query).reduce((sum, part) => sum + part.dimension, 0);
  const values = [...partials].map(([index, partial]) => [BigInt(index + 1), words(partial, dimension)]);
  const proved = query.validity === "proved";
  const size = partials.values().next().value.length / dimension;
  need(proved || size === 8, "a partial sum has the wrong length");
  const everywhere = Array.from({ length: dimension }, (_, place) => place);
  const below = (modulus) => values.every(([, list]) => list.every((value) => value < modulus));
  if (proved) {
    need(below(FIELDS[size]), "a partial sum has a word outside its field");
    const total = everywhere.map((place) => {
      const sum = values.reduce((all, [, list]) => all + list[place], 0n);
      return centred(mod(sum, FIELDS[size]), FIELDS[size]) + BigInt(offset[place]);
    });
    need(total.every((value) => abs(value) < 1n << 62n), "the total is outside of all that the query admits");
    return total;
  }
  if (query.sharing !== "shamir") {
    return everywhere.map((place) =>
      BigInt.asIntN(64, values.reduce((all, [, list]) => all + list[place], 0n)));
  }
  need(below(SHAMIR), "a partial sum has a word outside the field");
  values.sort(([one], [other]) => (one < other ? -1 : 1));
  const base = values.slice(0, query.threshold);
  for (const [x, list] of values.slice(query.threshold)) {
    need(everywhere.every((place) => interpolated(base, x, place) === list[place]),
      "the partial sums do not lie on one polynomial");
  }
  return everywhere.map((place) => centred(interpolated(base, 0n, place), SHAMIR));
}

// --- the round ---

const DESCRIPTOR = ["format", "deployment", "round", "query_id", "query", "window", "opened", "deadline",
  "aggregators", "roster_version", "roster_size", "segment_size", "ledger", "members"];
const ENTRY = ["id", "operator", "url", "identity_key", "seal_key"];
const COMMITMENT = ["round", "descriptor_hash", "manifest_hash", "aggregator", "hash", "offset"];
const TRANSCRIPT = ["format", "descriptor", "members_hash", "quorum", "participants",
  "contributions", "commitments", "reveals"];

function instant(value) {
  const found = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z$/.exec(value);
  need(found, "a time is not one");
  return BigInt(Date.parse(`${found[1]}Z`)) * 1000n + BigInt((found[2] ?? "").padEnd(6, "0"));
}

function segmentSize(query) {
  if (query.validity === "proved") return query.part_length ?? 4096;
  const dimension = partsOf(query).reduce((sum, part) => sum + part.dimension, 0);
  let size = 262144;
  while (size > 64 && 8 * dimension * size > 2 ** 21) size /= 2;
  return size;
}

async function consistent(signed, key) {
  const descriptor = await signedBy("tacit round descriptor v1", signed, key, "the round");
  only(descriptor, DESCRIPTOR, "the round");
  const { query, aggregators } = descriptor;
  need(descriptor.format === "tacit.round/1", "the round is of another format");
  const sealed = [];
  for (const entry of aggregators) {
    only(entry, ENTRY, "an aggregator");
    const said = await signedBy("tacit seal key v1", entry.seal_key, bytes(entry.identity_key), `the key of ${entry.id}`);
    need(said.party === entry.id, "a key names another party");
    need(said.round == null || said.round === descriptor.round, "a key is for another round");
    sealed.push(said.public_key_hash);
  }
  for (const list of [aggregators.map((each) => each.id), aggregators.map((each) => each.identity_key), sealed]) {
    need(list.length === query.aggregators && new Set(list).size === list.length, "an aggregator is missing, or there twice");
  }
  need(descriptor.segment_size === segmentSize(query), "the segment size is not that of this query");
  need(instant(descriptor.opened) < instant(descriptor.deadline), "the deadline is not after the opening");
  need(query.window == null || canonical(query.window) === canonical(descriptor.window), "the window is not the query's");
  return descriptor;
}

function checkNoise(query, contributions) {
  const layers = query.mechanism === "two-layer" || (query.mechanism === "distributed" && query.layer !== "curator");
  const shares = query.sharing === "shamir" && layers;
  const known = contributions.every((index) => index >= 0 && index < query.aggregators);
  const once = known && new Set(contributions).size === contributions.length;
  need(shares ? once && contributions.length >= (query.c_noise ?? 0) : contributions.length === 0,
    "the noise contributions are not those of the query");
}

/** Check a round: {transcript, result, round, coordinator, pins?, answered?}. Calls `step(title, detail)` after
 * each check. Returns {total, partials, anchored}; throws Refused with the reason. */
export async function check({ transcript, result, round, coordinator, pins = null, answered = null }, step = () => {}) {
  only(transcript, TRANSCRIPT, "the transcript");
  need(transcript.format === "tacit.transcript/1", "the transcript is of another format");
  const key = bytes(coordinator);
  const descriptor = await consistent(transcript.descriptor, key);
  const { query, aggregators } = descriptor;
  const own = await digest(descriptor);
  step("The coordinator signed this round", "Ed25519 over all of it, the query included");
  need(descriptor.round === round, "the transcript is of another round");
  need(answered === null || same(own, bytes(answered)),
    `the curator answered another round than was published: ${answered && hex(bytes(answered))} is not ${hex(own)}`);
  step(answered ? "It is the round that the curator answered" : "It is the round that you are looking at",
    `SHA-256 ${hex(own).slice(0, 20)}…`);
  const prints = {};
  for (const entry of aggregators) prints[entry.id] = hex(await sha256(bytes(entry.identity_key)));
  const unknown = aggregators.filter((entry) => pins && pins[entry.id] !== prints[entry.id]);
  need(unknown.length === 0, `${unknown[0]?.id} is not the one that was known before`);
  step(pins ? "Every aggregator is the one you know" : "Every aggregator signed its key",
    `${aggregators.length} identities, as ${answered ? "the answer went to" : pins ? "kept before" : "the coordinator names them"}`);
  const { participants, contributions, quorum } = transcript;
  need(participants >= query.min_participants && participants <= query.n_max, "too few or too many took part");
  need(participants <= descriptor.roster_size, "more took part than there are");
  checkNoise(query, contributions);
  step("Enough took part", `${participants} curators; the query demands ${query.min_participants}`);
  const manifest = await sha256(prefixed(text.encode("tacit manifest v1"), text.encode(round), own, Uint8Array.from(quorum),
      big4(participants), Uint8Array.from(contributions), bytes(transcript.members_hash)));
  const least = query.sharing === "shamir" ? query.threshold : query.aggregators;
  need(quorum.every((index) => index >= 0 && index < aggregators.length), "the quorum lists a stranger");
  need(new Set(quorum).size === quorum.length && quorum.length >= least, "the quorum is too small");
  const bound = new Map();
  const offsets = new Set();
  for (const signed of transcript.commitments) {
    const index = aggregators.findIndex((entry) => entry.id === signed.statement?.aggregator);
    need(index >= 0, "a stranger committed");
    const said = await signedBy("tacit commitment v1", signed, bytes(aggregators[index].identity_key), "a commitment");
    only(said, COMMITMENT, "a commitment");
    need(said.round === round && same(bytes(said.descriptor_hash), own), "a commitment names another round");
    need(same(bytes(said.manifest_hash), manifest), "quorum, participants or contributions are others than was committed to");
    bound.set(index, said);
    offsets.add(canonical(said.offset ?? null));
  }
  need(offsets.size === 1, "the commitments name different offsets");
  need(quorum.every((index) => bound.has(index)) && transcript.commitments.length === quorum.length, "a commitment is missing, or there twice");
  const offset = bound.get(quorum[0]).offset ?? null;
  const dimension = partsOf(query).reduce((sum, part) => sum + part.dimension, 0);
  need(query.validity === "proved" ? offset?.length === dimension : offset === null, "an offset is missing, or too many");
  step("All committed before any was opened", `${quorum.length} signed commitments to one list of curators`);
  const partials = new Map();
  for (const reveal of transcript.reveals) {
    only(reveal, ["aggregator", "nonce", "partial"], "a partial sum");
    const index = aggregators.findIndex((entry) => entry.id === reveal.aggregator);
    need(bound.has(index) && bytes(reveal.nonce).length === 32, "a partial sum of a stranger");
    const partial = bytes(reveal.partial);
    const hash = await sha256(prefixed(text.encode("tacit partial sum v1"), own, manifest,
      text.encode(reveal.aggregator), bytes(reveal.nonce), partial));
    need(same(hash, bytes(bound.get(index).hash)), `the partial sum of ${reveal.aggregator} is not the committed one`);
    partials.set(index, partial);
  }
  need(partials.size === quorum.length && transcript.reveals.length === quorum.length, "a partial sum is missing, or there twice");
  step("Each partial sum is the committed one", `${quorum.length} times SHA-256`);
  const total = combined(query, partials, offset);
  const found = meaning(query, total);
  // A curator is told no result; what was published to it is the transcript.
  const untold = answered !== null && result == null;
  need(untold || (canonical(found) === canonical(result) && Object.keys(found).length === Object.keys(result).length),
    "the partial sums do not give the published result");
  step(untold ? "They add up" : "They add up to the published result", Object.entries(found)
    .map(([name, value]) => (Array.isArray(value) ? `${value.length} values` : `${name} ${value}`)).join(", "));
  const shown = [...partials].map(([index, partial]) => [aggregators[index].id, words(partial, dimension)]);
  return { total, partials: shown, fingerprints: { ...prints }, coordinator: hex(await sha256(key)) };
}

// What the translated mapping stands on: Python's ways with truth, text, lists and patterns, and the event's form.
const $words = (x) => (typeof x === "string" ? Array.from(x) : x);
const $it = (x) => (typeof x === "string" ? Array.from(x) : x[Symbol.iterator] ? x : Object.keys(x));
const $list = (x) => [...$it(x)];
const $plain = (x) => x !== null && typeof x === "object" && !Array.isArray(x) && !x[Symbol.iterator];
const $t = (x) =>
  x === null || x === undefined || x === false || x === 0 || x === ""
    ? false
    : Array.isArray(x) ? x.length > 0 : x instanceof Set ? x.size > 0 : $plain(x) && !x.$kind ? Object.keys(x).length > 0 : true;
const $and = (...parts) => { let x; for (const part of parts) { x = part(); if (!$t(x)) return x; } return x; };
const $or = (...parts) => { let x; for (const part of parts) { x = part(); if ($t(x)) return x; } return x; };
const $eq = (a, b) => a === b || (typeof a === "object" && typeof b === "object" && JSON.stringify(a) === JSON.stringify(b));
const $in = (x, all) =>
  typeof all === "string" ? all.includes(x) : all instanceof Set ? all.has(x) : Array.isArray(all) ? all.some((one) => $eq(one, x)) : Object.hasOwn(all, x);
const $add = (a, b) => (Array.isArray(a) ? [...a, ...$it(b)] : a + b);
const $merge = (a, b) => (a instanceof Set ? new Set([...a, ...b]) : { ...a, ...b });
const $repr = (x) =>
  typeof x === "string" ? `'${x.replace(/[\\']/g, "\\$&")}'`
    : Array.isArray(x) ? `[${x.map($repr).join(", ")}]`
    : $plain(x) ? `{${Object.entries(x).map(([name, one]) => `${$repr(name)}: ${$repr(one)}`).join(", ")}}` : $str(x);
const $str = (x) => (x !== null && typeof x === "object" ? $repr(x) : x === null || x === undefined ? "None" : x === true ? "True" : x === false ? "False" : String(x));
const $int = (x) => Math.trunc(Number(x));
const $bool = $t;
const $len = (x) => (typeof x === "string" ? Array.from(x).length : Array.isArray(x) ? x.length : x.size ?? Object.keys(x).length);
const $map = (f, x) => $list(x).map((one) => f(one));
const $tuple = $list;
const $iter = $list;
const $next = (x, otherwise) => { for (const one of $it(x)) return one; return otherwise; };
const $any = (x) => $list(x).some($t);
const $all = (x) => $list(x).every($t);
const $max = (x, { key = (one) => one } = {}) => $list(x).reduce((best, one) => (key(one) > key(best) ? one : best));
const $slice = (x, from, to) => {
  const cut = $words(x).slice(from ?? undefined, to ?? undefined);
  return typeof x === "string" ? cut.join("") : cut;
};
const $at = (x, i) => {
  if (x instanceof $Match) return x.groups[i] ?? null;
  const all = $plain(x) ? x : $words(x);
  const found = all[typeof i === "number" && i < 0 ? all.length + i : i];
  if (found === undefined) throw new RangeError(`nothing at ${i}`);
  return found;
};

// Patterns: letters and digits are those of all scripts, as in Python.
const $pattern = (source) =>
  source
    .replace(/\\(.)/gs, (whole, sign) =>
      sign === "w" ? "[\\p{L}\\p{N}_]" : sign === "d" ? "\\p{Nd}" : /[A-Za-z0-9^$\\.*+?()[\]{}|/]/.test(sign) ? whole : sign === "-" ? "\\-" : sign)
    .replace(/\[([^\]]*?)\[\\p\{L\}\\p\{N\}_\]/g, "[$1\\p{L}\\p{N}_");
const $re = (source, ignoreCase = 0) => ({ $re: true, source: $pattern(source), flags: ignoreCase ? "iu" : "u" });
const $compiled = (x, more = "") => (x.$re ? new RegExp(x.source, x.flags + more) : new RegExp($pattern(x), "u" + more));
class $Match {
  constructor(found) {
    this.groups = found;
    this.from = Array.from(found.input.slice(0, found.index)).length;
    this.to = this.from + Array.from(found[0]).length;
  }
}
const $found = (found) => (found ? new $Match(found) : null);
const $re_compile = (source, ignoreCase = 0) => $re(source, ignoreCase);
const $re_escape = (text) => text.replace(/[\\^$.*+?()[\]{}|\/-]/g, "\\$&");
const $re_match = (x, text) => { const re = $compiled(x, "y"); return $found(re.exec(text)); };
const $re_fullmatch = (x, text) => {
  const re = $compiled(x);
  return $found(new RegExp(`^(?:${re.source})$`, re.flags).exec(text));
};
const $re_sub = (x, to, text) =>
  text.replace($compiled(x, "g"), (...found) => {
    const at = found.findIndex((one) => typeof one === "number");
    const groups = Object.assign(found.slice(0, at), { index: found[at], input: text });
    return typeof to === "string" ? to : to(new $Match(groups));
  });

const $blank = /^[\s\x1c-\x1f\x85]+|[\s\x1c-\x1f\x85]+$/g;
const $trim = (text, signs, which) => {
  const all = Array.from(text), is = (one) => (signs === undefined ? /[\s\x1c-\x1f\x85]/.test(one) : signs.includes(one));
  let from = 0, to = all.length;
  if (which !== "right") while (from < to && is(all[from])) from += 1;
  if (which !== "left") while (to > from && is(all[to - 1])) to -= 1;
  return all.slice(from, to).join("");
};
const $methods = {
  get: (x, key, otherwise = null) => (Object.hasOwn(x, key) && x[key] !== undefined ? x[key] : otherwise),
  items: (x) => Object.entries(x),
  keys: (x) => Object.keys(x),
  values: (x) => Object.values(x),
  strip: (x, signs) => $trim(x, signs, "both"),
  lstrip: (x, signs) => $trim(x, signs, "left"),
  rstrip: (x, signs) => $trim(x, signs, "right"),
  lower: (x) => x.toLowerCase(),
  upper: (x) => x.toUpperCase(),
  casefold: (x) => x.toLowerCase(),
  startswith: (x, what) => (Array.isArray(what) ? what.some((one) => x.startsWith(one)) : x.startsWith(what)),
  endswith: (x, what) => (Array.isArray(what) ? what.some((one) => x.endsWith(one)) : x.endsWith(what)),
  replace: (x, what, to) => x.split(what).join(to),
  split: (x, by) => (by === undefined ? $trim(x).split(/[\s\x1c-\x1f\x85]+/).filter((one) => one) : x.split(by)),
  partition: (x, by) => { const at = x.indexOf(by); return at < 0 ? [x, "", ""] : [x.slice(0, at), by, x.slice(at + by.length)]; },
  removeprefix: (x, what) => (what && x.startsWith(what) ? x.slice(what.length) : x),
  join: (x, all) => $list(all).join(x),
  isdigit: (x) => /^\p{Nd}+$/u.test(x),
  isidentifier: (x) => /^[\p{XIDS}_][\p{XIDC}]*$/u.test(x),
  search: (x, text) => $found($compiled(x).exec(text)),
  match: (x, text) => $re_match(x, text),
  fullmatch: (x, text) => $re_fullmatch(x, text),
  end: (x) => x.to,
  start: (x) => x.from,
  isoformat: (x) => x,
  model_copy: (x, { update }) => ({ ...x, ...update }),
};
const $call = (x, name, ...given) => {
  if (!Object.hasOwn($methods, name)) throw new TypeError(`no method ${name}`);
  return $methods[name](x, ...given);
};
const $is = (x, kind) => {
  switch (kind) {
    case "str": return typeof x === "string";
    case "bool": return typeof x === "boolean";
    case "int": return typeof x === "boolean" || Number.isInteger(x);
    case "float": return typeof x === "number" && !Number.isInteger(x);
    case "list": return Array.isArray(x);
    case "dict": return $plain(x) && !x.$kind;
  }
  return $plain(x) && x.$kind === kind;
};
const $moment = (seconds) => {
  const at = new Date(Math.floor(seconds) * 1000);
  if (Number.isNaN(at.getTime()) || at.getUTCFullYear() > 9999 || at.getUTCFullYear() < 1) throw new RangeError("no such year");
  return at.toISOString().replace(/\.\d+Z$/, "+00:00");
};

// The models of events: fields by their names here, by their aliases on the wire.
const $models = {};
const $model = (kind, fields) => {
  $models[kind] = fields;
  return (given) => ({ $kind: kind, ...given });
};
const $record = (order, defaults) => (...given) => {
  const named = given.length && $plain(given[given.length - 1]) ? given.pop() : {};
  return { ...defaults, ...Object.fromEntries(given.map((one, place) => [order[place], one])), ...named };
};
const $wire = (x) => {
  if (typeof x === "string") {
    return x.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "?").replaceAll("\u0000", "");
  }
  if (Array.isArray(x)) return x.map($wire);
  if (!$plain(x)) return x;
  if (!x.$kind) return Object.fromEntries(Object.entries(x).map(([name, one]) => [name, $wire(one)]));
  const pairs = Object.entries($models[x.$kind]).map(([name, field]) => [field.alias, x[name] ?? field.default]);
  return Object.fromEntries(pairs.filter(([, one]) => one !== null && one !== undefined).map(([name, one]) => [name, $wire(one)]));
};
const $as_input = (text, given) => {
  const trimmed = $trim(text);
  const [head = ""] = $methods.split(trimmed);
  const name = $methods.partition(head.slice(1), "@")[0];
  const { attachments = [], marks = [], ...routing } = given;
  if (head.startsWith("/") && $methods.isidentifier(name) && attachments.every((one) => one.quoted)) {
    return CommandReceived({ command: name.toLowerCase(), args: $trim(trimmed.slice(head.length)), ...routing });
  }
  return MessageReceived({ message: text, attachments, marks, ...routing });
};

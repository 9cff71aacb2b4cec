// Runs in the page's own world before any script of the page. Leaves three functions behind, under symbols that the
// page can find only by looking for them:
// - `idle(capMs)` resolves when no timer of the page is due within a second;
// - `intact(uses)` tells whether the page has left alone what `uses` lists;
// - `mayHaveShadow()` tells whether a script has made a shadow root.
//
// The network is watched by the protocol. Only what it cannot tell yet is known here: a request that a script has
// called for and that the engine has not sent, or an answer that the script has not been given.
(() => {
  "use strict";
  const HORIZON_MS = 1000; // A timer due later than this is not waited for.
  const REPEATS = 3; // A repeating timer counts for so many ticks ...
  const REPEATS_MS = 1000; // ... or for so long, whichever ends first.
  const CALM_TICKS = 2; // So many looks in a row must find nothing: callbacks of the last timer may set the next.

  const { setTimeout, clearTimeout, setInterval, clearInterval, performance, Map, Promise, Math } = globalThis;
  const now = performance.now.bind(performance);
  const pending = new Map(); // timer id -> { due, every, ticks, since }

  const run = (handler, args) => {
    if (typeof handler === "function") return handler.apply(globalThis, args);
    return (0, globalThis.eval)(String(handler));
  };

  const replace = (owner, name, replacement) => {
    const original = owner[name];
    const disguise = { value: original.name, configurable: true };
    Object.defineProperty(replacement, "name", disguise);
    replacement.toString = () => Function.prototype.toString.call(original);
    Object.defineProperty(replacement, "toString", { enumerable: false });
    owner[name] = replacement;
  };

  replace(globalThis, "setTimeout", function (handler, delay = 0, ...args) {
    const wait = Math.max(0, Number(delay) || 0);
    const id = setTimeout(() => {
      pending.delete(id);
      run(handler, args);
    }, delay);
    pending.set(id, { due: now() + wait });
    return id;
  });

  replace(globalThis, "setInterval", function (handler, delay = 0, ...args) {
    const every = Math.max(1, Number(delay) || 0);
    const id = setInterval(() => {
      const timer = pending.get(id);
      if (timer) {
        timer.ticks += 1;
        timer.due = now() + every;
      }
      run(handler, args);
    }, delay);
    pending.set(id, { due: now() + every, every, ticks: 0, since: now() });
    return id;
  });

  const forget = (clear) =>
    function (id) {
      pending.delete(Number(id));
      return clear(id);
    };
  replace(globalThis, "clearTimeout", forget(clearTimeout));
  replace(globalThis, "clearInterval", forget(clearInterval));

  let requests = 0;
  let wake = null; // Set while somebody waits for the last of them: looking again and again would cost the page.
  const ended = () => {
    requests -= 1;
    if (requests === 0 && wake) wake();
  };
  const { fetch } = globalThis;
  replace(globalThis, "fetch", function (...args) {
    const answer = fetch.apply(globalThis, args);
    requests += 1;
    answer.then(ended, ended);
    return answer;
  });
  const { send } = XMLHttpRequest.prototype;
  replace(XMLHttpRequest.prototype, "send", function (...args) {
    this.addEventListener("loadend", ended, { once: true });
    const sent = send.apply(this, args);
    requests += 1;
    return sent;
  });

  // Shadow roots that scripts make. Those that the page's HTML declares are not seen here.
  let shadows = false;
  for (const name of ["attachShadow", "setHTMLUnsafe"]) {
    const original = Element.prototype[name];
    if (!original) continue;
    replace(Element.prototype, name, function (...args) {
      shadows = true;
      return original.apply(this, args);
    });
  }

  // Milliseconds to the next timer that is waited for, or null.
  const nextTimer = () => {
    const at = now();
    let next = null;
    for (const timer of pending.values()) {
      if (timer.every && (timer.ticks >= REPEATS || at - timer.since > REPEATS_MS)) continue;
      const wait = timer.due - at;
      if (wait <= HORIZON_MS && (next === null || wait < next)) next = wait;
    }
    return next;
  };

  const idle = (capMs) =>
    new Promise((resolve) => {
      const end = now() + capMs;
      let calm = 0;
      let timer = null;
      const lookAfter = (wait) => {
        timer = setTimeout(look, wait);
      };
      const look = () => {
        wake = null;
        const next = requests > 0 ? HORIZON_MS : nextTimer();
        calm = next === null ? calm + 1 : 0;
        const left = end - now();
        if (calm >= CALM_TICKS || left <= 0) return resolve({ idle: calm >= CALM_TICKS, timers: pending.size });
        if (requests > 0) {
          wake = () => {
            clearTimeout(timer);
            lookAfter(1);
          };
        }
        lookAfter(Math.min(Math.max(1, next ?? 1), left));
      };
      look();
    });

  // The page may replace these two later on.
  const sourceOf = Function.prototype.call.bind(Function.prototype.toString);
  const getterOf = Function.prototype.call.bind(Object.prototype.__lookupGetter__);
  const isNative = (found, source) => typeof found === "function" && sourceOf(found) === source;

  // True when the page has replaced nothing of `uses`: [object, functions, getters, absent] with names in arrays.
  // An engine's own function says so in its source, with its own name. Nothing that a page can replace is used here.
  const intact = (uses) => {
    for (let i = 0; i < uses.length; i++) {
      const object = uses[i][0];
      const functions = uses[i][1];
      const getters = uses[i][2] || "";
      const absent = uses[i][3] || "";
      for (let j = 0; j < functions.length; j++) {
        if (!isNative(object[functions[j]], `function ${functions[j]}() { [native code] }`)) return false;
      }
      for (let j = 0; j < getters.length; j++) {
        if (!isNative(getterOf(object, getters[j]), `function get ${getters[j]}() { [native code] }`)) return false;
      }
      for (let j = 0; j < absent.length; j++) if (object[absent[j]] !== undefined) return false;
    }
    return true;
  };

  const leave = (name, value) => Object.defineProperty(globalThis, Symbol.for(`pandarium.${name}`), { value });
  leave("idle", idle);
  leave("intact", intact);
  leave("mayHaveShadow", () => shadows);
})();

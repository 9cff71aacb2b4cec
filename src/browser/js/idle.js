// A document without our hook (one that the engine made itself) has no timers to wait for.
(capMs) => globalThis[Symbol.for("pandarium.idle")]?.(capMs) ?? { idle: true, timers: 0 }

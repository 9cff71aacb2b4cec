// A document without our hook may hold anything.
() => globalThis[Symbol.for("pandarium.shadows")]?.() ?? true

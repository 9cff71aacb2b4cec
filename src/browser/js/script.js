// Runs a PandaScript and prints what comes of it as records: a line each, `mark` and then JSON.
//   {"console": {"level", "text"}}   what the script says, in order
//   {"returned": value}
//   {"threw": {"message", "line", "column"}}
// Neither of the last two where the script never came to its end.
// Left to itself the engine prints console and result alike, so that a result of several lines, or none, could not be
// told from what stands before it. The built-ins are taken before the script can replace them.
async (mark, source) => {
  const { stringify } = JSON;
  const print = console.log;
  const tell = (record) => print(mark + stringify(record));

  // JSON has no other form for them; `null` would say less than is there.
  const plain = (key, value) =>
    typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value)) ? String(value) : value;
  const shown = (value) => {
    if (typeof value === "string" || value instanceof Error) return String(value);
    try {
      return stringify(value, plain) ?? String(value);
    } catch {
      return String(value);
    }
  };
  // The first place that is in the script: its function has two lines of its own above it. An error of the engine has
  // none, and neither has one of syntax.
  const place = (error) => {
    const found = /, <anonymous>:(\d+):(\d+)\)/.exec(String(error?.stack));
    return found && { line: Number(found[1]) - 2, column: Number(found[2]) };
  };

  for (const level of ["log", "info", "debug", "warn", "error"]) {
    console[level] = (...values) => tell({ console: { level, text: values.map(shown).join(" ") } });
  }
  try {
    const AsyncFunction = (async () => {}).constructor;
    const returned = await new AsyncFunction(source)();
    const json = returned === undefined ? "null" : (stringify(returned, plain) ?? stringify(String(returned)));
    print(`${mark}{"returned":${json}}`);
  } catch (error) {
    tell({ threw: { message: shown(error).slice(0, 2000), ...place(error) } });
    throw error;
  }
}

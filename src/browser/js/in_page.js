// Runs the page script in the page's own world, which spares making one of ours, if the page has left alone all that the
// script uses; null otherwise. USES and NORMALISE stand for the scripts of these names.
(options) => {
  const ours = (name) => globalThis[Symbol.for(`pandarium.${name}`)];
  if (ours("intact")?.(USES) !== true) return null;
  return (NORMALISE)({ ...options, mayHaveShadow: options.mayHaveShadow || ours("mayHaveShadow")() });
}

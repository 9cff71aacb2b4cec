// true: it matches. false: it did not within the time. null: it is not CSS.
async (selector, limitMs) => {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      if (document.querySelector(selector)) return true;
    } catch {
      return null;
    }
    const left = end - performance.now();
    if (left <= 0) return false;
    await new Promise((resolve) => setTimeout(resolve, Math.min(20, left)));
  }
}

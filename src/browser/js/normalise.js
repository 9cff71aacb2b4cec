// Serialises what a person can see of the page as one clean HTML string. Reads only: it never changes the page.
//
// One function expression, for `Runtime.callFunctionOn` with `returnByValue` in an isolated world of the main frame.
// Argument, by value: {selector: string | null, maxNodes: number}. Without a selector the whole body is taken.
// Result: the JSON shape that `reader::PageCapture` reads; the meaning of each field is told there.
//
// The walk is a loop over an explicit stack, because pages nest deeper than a call stack reaches. It follows the
// composed tree: an open shadow root replaces its host's children, a slot stands for what is assigned to it, and a
// frame of the same origin stands for its body.
(options) => {
  const MAX_DATA_URI = 256; // bytes; longer ones are images for eyes, not text for readers
  const MAX_ATTRIBUTE = 2048; // characters; a longer class or title tells a reader nothing
  const MASK = '••••••••'; // says "filled" without telling the length
  const VOID = new Set(['br', 'hr', 'img', 'input', 'wbr']);
  const NEVER_CONTENT = new Set(['script', 'style', 'template', 'link', 'meta', 'base', 'head', 'title', 'datalist', 'param',
    'source', 'track', 'noembed', 'noframes']);
  const DROPPED = new Set(['svg', 'canvas', 'noscript', 'object', 'embed', 'applet']);
  const TABLE_PARTS = new Set(['caption', 'colgroup', 'col', 'thead', 'tbody', 'tfoot', 'tr', 'td', 'th']);
  const KEPT_ATTRIBUTES = new Set(['id', 'class', 'itemprop', 'role', 'lang', 'dir', 'title', 'rel', 'aria-label', 'open', 'value',
    'start', 'reversed', 'colspan', 'rowspan', 'scope', 'datetime']);
  const LAZY_SOURCES = ['data-src', 'data-original', 'data-lazy-src', 'data-lazy'];
  const SCREEN_READER_ONLY = /(^|\s)(sr-only|visually-?hidden|screen-reader-text|a11y-hidden|u-hidden-visually)(\s|$)/i;
  const SECRET_NAME = /passw|passcode|passphrase|\botp\b|one.?time|\bcvv|\bcvc|card.?n(o|um)|\bpin\b|secret|token/i;
  const SECRET_AUTOCOMPLETE = /password|one-time-code|\bcc-/i;
  const BLOCK_DISPLAY = /^(block|flex|grid|list-item|table|flow-root)/;
  // Embeddings, overrides and isolates reorder what a person reads; tag characters (U+E0000..E007F) are invisible.
  const UNSEEN_CHARACTERS = /[\u202A-\u202E\u2066-\u2069]|\uDB40[\uDC00-\uDC7F]/g;

  const out = [];
  const count = { links: 0, images: 0, tables: 0, codeBlocks: 0, framesInlined: 0, framesUnread: 0, hiddenNodes: 0, dropped: 0 };
  let visited = 0;
  let truncated = false;

  // A lone surrogate is no text: JSON readers refuse it.
  const clean = (text) => text.replace(UNSEEN_CHARACTERS, '').toWellFormed();
  const ENTITY = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  const escapeText = (text) => (/[&<>]/.test(text) ? text.replace(/[&<>]/g, (c) => ENTITY[c]) : text);
  const attribute = (name, value) => ` ${name}="${/[&"]/.test(value) ? value.replace(/[&"]/g, (c) => ENTITY[c]) : value}"`;
  const hasText = (node) => /\S/.test(node.textContent || '');

  // Null for what is no URL, runs a script, or is data for eyes only.
  const usable = (url) => {
    if (!/^[a-z][a-z0-9+.-]*:/i.test(url) || /^(javascript|vbscript):/i.test(url)) return null;
    return url.length > MAX_DATA_URI && /^data:/i.test(url) ? null : url;
  };
  const absolute = (value, base) => {
    const raw = (value || '').trim();
    try {
      return raw ? usable(new URL(raw, base).href) : null;
    } catch {
      return null;
    }
  };
  // The engine's own property resolves against the owning document, and costs a third of `new URL`.
  const hrefOf = (link) => (link.getAttribute('href') ? usable(link.href) : null);

  // The widest or densest candidate of a srcset.
  const largestCandidate = (srcset) => {
    let best = null;
    let bestSize = -1;
    for (const [, url, descriptor] of (srcset || '').matchAll(/\s*([^\s,]\S*[^\s,]|[^\s,])(?:\s+([^,]+))?(?:,|$)/g)) {
      const size = parseFloat(descriptor) || 1;
      if (size > bestSize) [best, bestSize] = [url, size];
    }
    return best;
  };

  const imageSource = (image) => {
    for (const name of LAZY_SOURCES) {
      const value = image.getAttribute(name);
      if (value && !/\s/.test(value.trim())) return value;
    }
    const lazySet = largestCandidate(image.getAttribute('data-srcset'));
    if (lazySet) return lazySet;
    const source = image.getAttribute('src');
    if (source && !source.startsWith('data:')) return source;
    const ownSet = largestCandidate(image.getAttribute('srcset'));
    if (ownSet) return ownSet;
    const picture = image.parentElement;
    if (picture && picture.localName === 'picture') {
      for (const alternative of picture.querySelectorAll('source')) {
        const candidate = largestCandidate(alternative.getAttribute('srcset') || alternative.getAttribute('data-srcset'));
        if (candidate) return candidate;
      }
    }
    return source;
  };

  const isSecret = (field) =>
    field.type === 'password' ||
    SECRET_AUTOCOMPLETE.test(field.getAttribute('autocomplete') || '') ||
    SECRET_NAME.test(`${field.getAttribute('name') || ''} ${field.id || ''}`);

  // Lightpanda computes opacity for this call only; it is true for what a transparent ancestor hides, too.
  const isTransparent = (element) => !element.checkVisibility({ opacityProperty: true });

  // Pages hide their whole content for a moment (an open dialog, a fade-in); what holds the main content is not decoration.
  const holdsMainContent = (element) => element.querySelector('main, [role=main], article, h1') !== null;

  const isRepeatedForScreenReaders = (element) => {
    if (!SCREEN_READER_ONLY.test(element.getAttribute('class'))) return false;
    const text = element.textContent.trim();
    const parent = element.parentElement;
    if (!text || text.length > 200 || !parent) return false;
    const around = parent.textContent;
    return around.indexOf(text) !== around.lastIndexOf(text);
  };

  // Hidden together with all that it holds. Visibility is not decided here: a visible child of a hidden parent shows.
  const isHidden = (element, name, names, style, transparent, context) => {
    if (style.display === 'none') {
      // What a closed <details> holds is one click away: engines give it display:none, a reader wants it.
      const unfolds = context.closedDetails && !names.includes('hidden');
      return !unfolds && element.getAttribute('hidden') !== 'until-found';
    }
    if (name === 'dialog' && !names.includes('open')) return true;
    if (transparent && !holdsMainContent(element)) return true;
    if (names.length === 0) return false;
    if (element.getAttribute('aria-hidden') === 'true') {
      // A described image says what hidden markup beside it says to screen readers (formulas).
      return !(name === 'img' && element.getAttribute('alt')) && !holdsMainContent(element);
    }
    return names.includes('class') && isRepeatedForScreenReaders(element);
  };

  const texSource = (math) => {
    for (const annotation of math.querySelectorAll('annotation')) {
      if (/tex/i.test(annotation.getAttribute('encoding') || '')) return annotation.textContent;
    }
    return math.getAttribute('alttext');
  };
  const emitMath = (source, display) => {
    const tex = source.trim().replace(/^\{\\displaystyle\s+([^]*)\}$/, '$1').trim();
    const mark = display ? '$$' : '$';
    out.push(`<span class="math math-${display ? 'display' : 'inline'}">${escapeText(mark + tex + mark)}</span>`);
  };
  const isDisplayMath = (element) =>
    element.getAttribute('display') === 'block' || element.closest('.katex-display, mjx-container[display=true]') !== null;

  const attributesOf = (element, name, names) => {
    let text = '';
    for (const key of names) {
      if (!KEPT_ATTRIBUTES.has(key)) continue;
      const value = element.getAttribute(key);
      if (value.length <= MAX_ATTRIBUTE) text += attribute(key, value);
    }
    if (names.length > 0 && (name === 'td' || name === 'th')) {
      const align = element.style.textAlign || element.getAttribute('align');
      if (align) text += attribute('align', align);
    }
    return text;
  };

  const emitImage = (image, base) => {
    if (image.getAttribute('width') === '1' || image.getAttribute('height') === '1') return; // a tracking pixel
    const alt = image.getAttribute('alt') || '';
    const source = absolute(imageSource(image), base);
    if (!source && image.getAttribute('src')) count.dropped++;
    if (!source && !alt) return;
    if (source) count.images++;
    const title = image.getAttribute('title');
    out.push(`<img${attributesOf(image, 'img', ['class', 'id'].filter((key) => image.hasAttribute(key)))}${source ? attribute('src', source) : ''}${attribute('alt', alt)}${title ? attribute('title', title) : ''}>`);
  };

  const emitInput = (input) => {
    const type = input.type;
    if (type === 'hidden' || type === 'image' || type === 'file') return;
    if (type === 'checkbox' || type === 'radio') {
      out.push(`<input type="${type}"${input.checked ? ' checked=""' : ''}>`);
    } else if (input.value) {
      out.push(`<input type="text"${attribute('value', isSecret(input) ? MASK : input.value)}>`);
    }
  };

  const emitMedia = (media, name, base) => {
    const nested = media.querySelector('source');
    const source = absolute(media.getAttribute('src') || (nested && nested.getAttribute('src')), base);
    const poster = absolute(media.getAttribute('poster'), base);
    out.push(`<${name}${source ? attribute('src', source) : ''}${poster ? attribute('poster', poster) : ''}></${name}>`);
  };

  // The document of a frame that the page itself may read. Some engines hand out other origins' documents too.
  const readableDocument = (frame) => {
    let inner = null;
    try {
      inner = frame.contentDocument;
    } catch {
      return null;
    }
    if (!inner || !inner.body) return null;
    if (/^about:/.test(inner.URL)) return inner;
    try {
      return new URL(inner.URL).origin === location.origin ? inner : null;
    } catch {
      return null;
    }
  };

  // Stack entries come in pairs: a node with its context, or a string to write with null.
  const stack = [];
  const pushChildren = (nodes, context) => {
    for (let i = nodes.length - 1; i >= 0; i--) stack.push(nodes[i], context);
  };
  const childrenOf = (node) => {
    const children = [];
    for (let child = node.firstChild; child; child = child.nextSibling) children.push(child);
    return children;
  };
  const composedChildren = (element, name) => {
    if (element.shadowRoot) return childrenOf(element.shadowRoot);
    if (name === 'slot') {
      const assigned = element.assignedNodes();
      if (assigned.length > 0) return Array.from(assigned);
    }
    return childrenOf(element);
  };
  const pushWrapped = (open, nodes, close, context) => {
    stack.push(close, null);
    pushChildren(nodes, context);
    stack.push(open, null);
  };

  // A root that is transparent itself (a page before its fade-in) says nothing about what it holds.
  const rootContext = (root, inTable) => ({
    base: root.baseURI, invisible: false, closedDetails: false, inTable, opacityMatters: !isTransparent(root),
  });

  const visitFrame = (frame) => {
    const inner = readableDocument(frame);
    if (!inner) {
      if (frame.getAttribute('src')) count.framesUnread++;
      return;
    }
    count.framesInlined++;
    pushWrapped('<div>', childrenOf(inner.body), '</div>', rootContext(inner.body, false));
  };

  // Superscripts, subscripts and fractions of MathML that brings no TeX.
  const MATH_PARTS = { msup: ['', '<sup>', '</sup>'], msub: ['', '<sub>', '</sub>'], mfrac: ['', '/', ''] };
  const visitMathPart = (element, name, context) => {
    const [first, second] = element.children;
    const [before, between, after] = MATH_PARTS[name];
    stack.push(after, null, second, context, between, null, first, context, before, null);
  };

  const visitNonContent = (element, name) => {
    const type = name === 'script' ? element.getAttribute('type') || '' : '';
    if (type.startsWith('math/tex')) emitMath(element.textContent, /mode=display/.test(type));
  };

  // True when the element was dealt with and its children are not to be walked.
  const visitSpecial = (element, name, context) => {
    if (DROPPED.has(name)) {
      count.dropped++;
      return true;
    }
    switch (name) {
      case 'img': emitImage(element, context.base); return true;
      case 'input': emitInput(element); return true;
      case 'audio': case 'video': emitMedia(element, name, context.base); return true;
      case 'iframe': case 'frame': visitFrame(element); return true;
      case 'select':
        for (const option of element.selectedOptions || []) out.push(`<span>${escapeText(option.textContent)}</span> `);
        return true;
      case 'textarea':
        if (element.value) out.push(`<input type="text"${attribute('value', isSecret(element) ? MASK : element.value)}>`);
        return true;
      case 'area': {
        const href = hrefOf(element);
        if (href) {
          count.links++;
          out.push(`<a${attribute('href', href)}>${escapeText(element.getAttribute('alt') || href)}</a> `);
        }
        return true;
      }
      case 'math': {
        const tex = texSource(element);
        if (tex) emitMath(tex, isDisplayMath(element));
        return Boolean(tex);
      }
      case 'annotation': case 'annotation-xml': return true;
      case 'msup': case 'msub': case 'mfrac':
        if (element.children.length !== 2) return false;
        visitMathPart(element, name, context);
        return true;
      default: return false;
    }
  };

  // The rendered copy that TeX libraries put beside their source.
  const hasMathScripts = document.querySelector('script[type^="math/tex"]') !== null;
  const isMathRendering = (element) => {
    const classes = element.getAttribute('class');
    return /(^|\s)katex-html(\s|$)/.test(classes) || (hasMathScripts && /(^|\s)MathJax(_|\s|$)/.test(classes));
  };

  // The name to write: spans and custom elements laid out as blocks are blocks; table parts need a table around them.
  const tagFor = (name, style, context) => {
    if (name === 'slot' || name === 'picture' || name === 'body' || name === 'html') return null;
    if (name === 'span' || name.includes('-')) return BLOCK_DISPLAY.test(style.display) ? 'div' : 'span';
    if (TABLE_PARTS.has(name) && !context.inTable) return 'div';
    if (name === 'listing' || name === 'xmp' || name === 'plaintext') return 'pre';
    return /^[a-z][a-z0-9]*$/.test(name) ? name : 'span';
  };

  const openTag = (element, name, names, tag) => {
    let attributes = attributesOf(element, name, names);
    if (tag === 'a') {
      const href = hrefOf(element);
      if (!href) {
        out.push('<span>');
        return '</span>';
      }
      count.links++;
      attributes += attribute('href', href);
    } else if (tag === 'table') {
      count.tables++;
    } else if (tag === 'pre') {
      count.codeBlocks++;
    }
    out.push(`<${tag}${attributes}>`);
    if (VOID.has(tag)) return '';
    // A parser drops the first line break of a <pre>: one more keeps the page's own.
    const first = element.firstChild;
    if (tag === 'pre' && first && first.nodeType === 3 && first.data.startsWith('\n')) out.push('\n');
    return `</${tag}>`;
  };

  const contextInside = (element, name, invisible, transparent, context) => {
    const closedDetails = name === 'details' && !element.hasAttribute('open');
    const inTable = name === 'table' || (context.inTable && TABLE_PARTS.has(name) && name !== 'td' && name !== 'th' && name !== 'caption');
    const opacityMatters = context.opacityMatters && !transparent && !closedDetails;
    if (invisible === context.invisible && closedDetails === context.closedDetails && inTable === context.inTable &&
      opacityMatters === context.opacityMatters) return context;
    return { base: context.base, invisible, closedDetails, inTable, opacityMatters };
  };

  const visitElement = (element, context, isRoot) => {
    const name = element.localName;
    if (NEVER_CONTENT.has(name)) return visitNonContent(element, name);
    const names = element.getAttributeNames();
    if (names.includes('class') && isMathRendering(element)) return;
    const style = getComputedStyle(element);
    const transparent = context.opacityMatters && style.display !== 'none' && isTransparent(element);
    if (!isRoot && isHidden(element, name, names, style, transparent, context)) {
      if (hasText(element)) count.hiddenNodes++;
      return;
    }
    const invisible = !isRoot && (style.visibility === 'hidden' || style.visibility === 'collapse');
    if (invisible && !context.invisible && hasText(element)) count.hiddenNodes++;
    const unseen = invisible && VOID.has(name);
    if (!unseen && visitSpecial(element, name, context)) return;
    const tag = unseen ? null : tagFor(name, style, context);
    const close = tag ? openTag(element, name, names, tag) : '';
    if (close) stack.push(close, null);
    pushChildren(composedChildren(element, name), contextInside(element, name, invisible, transparent, context));
  };

  const drain = () => {
    while (stack.length > 0) {
      const context = stack.pop();
      const node = stack.pop();
      if (context === null) {
        out.push(node);
      } else if (visited >= options.maxNodes) {
        truncated = true;
      } else {
        visited++;
        if (node.nodeType === 3 || node.nodeType === 4) {
          if (!context.invisible) out.push(escapeText(node.data));
        } else if (node.nodeType === 1) {
          visitElement(node, context, false);
        }
      }
    }
  };

  const walkRoot = (root) => {
    const inTable = TABLE_PARTS.has(root.localName);
    if (inTable) out.push('<table>');
    visitElement(root, rootContext(root, inTable), true);
    drain();
    if (inTable) out.push('</table>');
    out.push('\n');
  };

  const selection = () => {
    if (options.selector === null) return { roots: [document.body || document.documentElement], matched: null, error: null };
    try {
      const matches = Array.from(document.querySelectorAll(options.selector));
      const taken = new Set(matches);
      const inside = (element) => {
        for (let above = element.parentElement; above; above = above.parentElement) if (taken.has(above)) return true;
        return false;
      };
      return { roots: matches.filter((element) => !inside(element)), matched: matches.length, error: null };
    } catch (error) {
      return { roots: [], matched: 0, error: error.name };
    }
  };

  const structuredData = () => {
    const data = { jsonLd: [], openGraph: [], twitter: [], description: null, canonical: null, alternates: [] };
    for (const script of document.querySelectorAll('script[type="application/ld+json"]')) data.jsonLd.push(clean(script.textContent));
    for (const meta of document.querySelectorAll('meta[content]')) {
      const key = (meta.getAttribute('property') || meta.getAttribute('name') || '').toLowerCase();
      const content = clean(meta.getAttribute('content'));
      if (/^(og|article|book|profile|music|video):/.test(key)) data.openGraph.push([key, content]);
      else if (key.startsWith('twitter:')) data.twitter.push([key, content]);
      else if (key === 'description') data.description = content;
    }
    for (const link of document.querySelectorAll('link[rel][href]')) {
      const rel = link.getAttribute('rel').toLowerCase().split(/\s+/);
      const href = absolute(link.getAttribute('href'), document.baseURI);
      if (!href) continue;
      if (rel.includes('canonical')) data.canonical = href;
      else if (rel.includes('alternate') && !rel.includes('stylesheet')) {
        data.alternates.push({ href, type: link.getAttribute('type'), hreflang: link.getAttribute('hreflang') });
      }
    }
    return data;
  };

  const { roots, matched, error } = selection();
  for (const root of roots) if (root) walkRoot(root);
  return {
    html: clean(out.join('')),
    url: document.URL,
    base: document.baseURI,
    title: clean(document.title || '').trim(),
    lang: document.documentElement ? document.documentElement.getAttribute('lang') : null,
    contentType: document.contentType,
    characterSet: document.characterSet,
    selectorMatched: matched,
    selectorError: error,
    nodes: visited,
    truncated,
    ...count,
    structuredData: structuredData(),
  };
}

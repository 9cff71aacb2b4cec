// Takes what a person can see of the page as one HTML string. Reads only: it never changes the page.
//
// One function expression, for `Runtime.evaluate` with `returnByValue`. Argument, by value:
// {selector: string | null, maxNodes: number, mayHaveShadow: boolean}. Without a selector the whole body is taken.
// Result: the JSON shape that `reader::PageCapture` reads; the meaning of each field is told there.
//
// The engine writes out what needs no care at its own speed. What needs care is found by selectors and by asking which
// elements are hidden; only these and the elements above them are visited. URLs, attributes, images and formulas are
// left as the page has them: `reader::clean` sees to those. The script is short because it is compiled for each page,
// which costs more than to run it.
//
// The walk is a loop over an explicit stack, because pages nest deeper than a call stack reaches. It follows the
// composed tree: an open shadow root replaces its host's children, a slot stands for what is assigned to it, and a
// frame of the same origin stands for its body.
(options) => {
  // What is dropped, what holds the state of a form, what is hidden, what the HTML parser would read back otherwise.
  const SPECIAL = 'script,style,template,title,datalist,noembed,noframes,noscript,object,embed,applet,svg,canvas,iframe,frame,' +
    'input,select,textarea,area,dialog,rp,pre,listing,xmp,plaintext,[hidden],[popover],[aria-hidden=true]:not(.katex-html),' +
    '[style*=display i],[style*=visib i],[style*=opacity i],[style*=content-v i],[style*="\\\\"],audio:not([controls]),' +
    ':not(tr)>td,:not(tr)>th,:not(table,thead,tbody,tfoot)>tr,:not(table)>:is(caption,colgroup,thead,tbody,tfoot)';
  const MAX_RULES = 200; // About what an element costs to ask, a rule costs to read.
  const HIDES = /display\s*:\s*(none|[a-z-]*\()|visibility\s*:\s*(?!visible)|opacity\s*:\s*(0*\.?0*(?![\d.])|[a-z])/i;
  const list = (names) => new Set(names.split(' '));
  const NEVER_CONTENT = list('script style template head title datalist noembed noframes meta link base param source track');
  const DROPPED = list('svg canvas noscript object embed applet');
  const VOID = list('br hr img wbr col');
  const TABLE_PARTS = list('caption colgroup col thead tbody tfoot tr td th');
  const PREFORMATTED = list('pre listing xmp plaintext');
  const MASK = '\u2022'.repeat(8); // says "filled" without telling the length
  const out = [];
  const count = { framesInlined: 0, framesUnread: 0, hiddenNodes: 0, dropped: 0 };
  const special = new Set();
  const above = new Set(); // the ancestors of what is special
  const stack = []; // pairs: a node with its context, or a string to write with null
  let visited = 0;
  let truncated = false;

  const escape = (text) => (/[&<>"]/.test(text)
    ? text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;') : text);
  const attribute = (name, value) => ` ${name}="${escape(value)}"`;
  const countHidden = (element) => {
    if (/\S/.test(element.textContent)) count.hiddenNodes++;
  };
  // True for what a transparent ancestor hides, too.
  const isTransparent = (element) => !element.checkVisibility({ opacityProperty: true });

  const mark = (element) => {
    special.add(element);
    for (let parent = element.parentElement; parent && !above.has(parent); parent = parent.parentElement) above.add(parent);
  };
  // What the rules of the page say about sight: the selectors of rules that hide, and whether some make blocks.
  // Null where that is not known, or dearer to find out than to ask every element.
  const rulesAboutSight = () => {
    const found = { hiding: [], makeBlocks: false };
    let rules = 0;
    for (const sheet of document.styleSheets) {
      rules += sheet.cssRules.length;
      if (rules > MAX_RULES) return null;
      for (const { cssText } of sheet.cssRules) {
        if (!/display|visibility|opacity|@import/i.test(cssText)) continue;
        if (cssText.startsWith('@import') || cssText.includes('&')) return null;
        if (cssText.startsWith('@') && /^@[\w-]*keyframes/i.test(cssText)) continue;
        for (const [, selector, body] of cssText.matchAll(/([^{}]+)\{([^{}]*)\}/g)) {
          if (HIDES.test(body)) found.hiding.push(selector);
          found.makeBlocks ||= /display\s*:\s*(?!none|inline)/i.test(body);
        }
      }
    }
    return document.adoptedStyleSheets?.length > 0 ? null : found;
  };
  const isBlock = (style) => /^(block|flex|grid|list-item|table|flow-root)/.test(style.display);
  const markSpecial = (root, rules) => {
    for (const element of root.querySelectorAll(SPECIAL)) mark(element);
    if (rules?.hiding.length > 0) for (const element of root.querySelectorAll(rules.hiding.join())) mark(element);
    if (!rules || rules.makeBlocks) {
      for (const span of root.querySelectorAll('span')) if (isBlock(getComputedStyle(span))) mark(span);
    }
    if (rules && !options.mayHaveShadow) return;
    const sight = { visibilityProperty: true, opacityProperty: true };
    for (const element of root.querySelectorAll(':not(source,link,meta,track)')) {
      if ((!rules && !element.checkVisibility(sight)) || (options.mayHaveShadow && element.shadowRoot)) mark(element);
    }
  };

  // Pages hide their whole content for a moment (an open dialog, a fade-in); what holds the main content is not decoration.
  const holdsMainContent = (element) => element.querySelector('main, [role=main], article, h1') !== null;

  // Hidden together with all that it holds. Visibility is not decided here: a visible child of a hidden parent shows.
  const isHidden = (element, name, style, transparent, context) => {
    if (style.display === 'none') {
      // What a closed <details> holds is one click away: engines give it display:none, a reader wants it.
      const hidden = element.getAttribute('hidden');
      return !(context.closedDetails && hidden === null) && hidden !== 'until-found';
    }
    if (name === 'dialog' && !element.hasAttribute('open')) return true;
    if (transparent && !holdsMainContent(element)) return true;
    // A described image says what hidden markup beside it says to screen readers (formulas).
    return element.getAttribute('aria-hidden') === 'true' && !(name === 'img' && element.getAttribute('alt')) &&
      !holdsMainContent(element);
  };

  const emitField = (field) => {
    const { type } = field;
    if (type === 'checkbox' || type === 'radio') {
      out.push(`<input type="${type}"${field.checked ? ' checked=""' : ''}>`);
    } else if (field.value && type !== 'hidden' && type !== 'image' && type !== 'file') {
      const said = `${field.getAttribute('name')} ${field.id} ${field.getAttribute('autocomplete')}`;
      const isSecret = type === 'password' ||
        /passw|passcode|passphrase|\botp\b|one.?time|\bcvv|\bcvc|\bcc-|card.?n(o|um)|\bpin\b|secret|token/i.test(said);
      out.push(`<input type="text"${attribute('value', isSecret ? MASK : field.value)}>`);
    }
  };

  // The document of a frame that the page itself may read. Some engines hand out other origins' documents too.
  const readableDocument = (frame) => {
    try {
      const inner = frame.contentDocument;
      if (!inner?.body) return null;
      return inner.URL.startsWith('about:') || new URL(inner.URL).origin === location.origin ? inner : null;
    } catch {
      return null;
    }
  };

  const pushChildren = (parent, context) => {
    for (let child = parent.lastChild; child; child = child.previousSibling) stack.push(child, context);
  };
  const pushComposedChildren = (element, name, context) => {
    const assigned = name === 'slot' ? element.assignedNodes() : [];
    if (assigned.length === 0) pushChildren(element.shadowRoot || element, context);
    else for (let i = assigned.length - 1; i >= 0; i--) stack.push(assigned[i], context);
  };

  // `each`: every element is asked. A root that is transparent itself (a page before its fade-in) says nothing about
  // what it holds.
  const rootContext = (root, inTable, each) => (
    { invisible: false, closedDetails: false, inTable, opacityMatters: !isTransparent(root), each });

  const visitFrame = (frame) => {
    const inner = readableDocument(frame);
    if (inner) {
      count.framesInlined++;
      stack.push('</div>', null);
      pushChildren(inner.body, rootContext(inner.body, false, true));
      out.push(`<div${attribute('data-frame-base', inner.baseURI)}>`);
    } else if (frame.getAttribute('src')) {
      count.framesUnread++;
    }
  };

  // True when the element was dealt with and its children are not to be walked.
  const visitSpecial = (element, name) => {
    if (DROPPED.has(name)) count.dropped++;
    else if (name === 'input' || name === 'textarea') emitField(element);
    else if (name === 'iframe' || name === 'frame') visitFrame(element);
    else if (name === 'select') for (const option of element.selectedOptions) out.push(`<span>${escape(option.text)}</span> `);
    else if (name !== 'area') return false;
    else if (element.getAttribute('href')) {
      out.push(`<a${attribute('href', element.getAttribute('href'))}>${escape(element.getAttribute('alt') || element.href)}</a> `);
    }
    return true;
  };

  // The name to write: spans laid out as blocks are blocks; table parts need a table around them.
  const tagFor = (name, style, context) => {
    if (name === 'body' || name === 'html') return null;
    if (style && name === 'span' && isBlock(style)) return 'div';
    if (!context.inTable && TABLE_PARTS.has(name)) return 'div';
    return PREFORMATTED.has(name) ? 'pre' : name;
  };

  const openTag = (element, tag) => {
    let attributes = '';
    for (const name of element.getAttributeNames()) {
      if (/^[a-z][\w:.-]*$/i.test(name)) attributes += attribute(name, element.getAttribute(name));
    }
    out.push(`<${tag}${attributes}>`);
    if (VOID.has(tag)) return;
    // A parser drops the first line break of a <pre>: one more keeps the page's own.
    if (tag === 'pre') out.push('\n');
    stack.push(`</${tag}>`, null);
  };

  const visitElement = (element, context, isRoot) => {
    const name = element.localName;
    if (NEVER_CONTENT.has(name)) {
      const type = (name === 'script' && element.getAttribute('type')) || '';
      if (type.startsWith('math/tex')) {
        out.push(`<math class="from-script"${attribute('display', type.includes('display') ? 'block' : '')}${attribute('alttext', element.text)}></math>`);
      }
      return;
    }
    const asked = isRoot || context.each || special.has(element);
    let { invisible, opacityMatters } = context;
    let style = null;
    if (asked) {
      style = getComputedStyle(element);
      const transparent = opacityMatters && style.display !== 'none' && isTransparent(element);
      if (!isRoot && isHidden(element, name, style, transparent, context)) return countHidden(element);
      invisible = !isRoot && (style.visibility === 'hidden' || style.visibility === 'collapse');
      if (invisible && !context.invisible) countHidden(element);
      if (invisible ? VOID.has(name) || name === 'input' : visitSpecial(element, name)) return;
      opacityMatters &&= !transparent;
    }
    const tag = tagFor(name, style, context);
    if (tag === name && tag !== 'pre' && !context.each && !invisible && !above.has(element) && !element.shadowRoot) {
      out.push(element.outerHTML);
      return;
    }
    if (tag) openTag(element, tag);
    const isPart = TABLE_PARTS.has(name);
    const closedDetails = name === 'details' && !element.hasAttribute('open');
    pushComposedChildren(element, name, {
      invisible, closedDetails, opacityMatters: opacityMatters && !closedDetails,
      inTable: name === 'table' || (context.inTable && isPart && name !== 'td' && name !== 'th' && name !== 'caption'),
      each: context.each || invisible || (isPart && !context.inTable) || Boolean(element.shadowRoot),
    });
  };

  const visit = (node, context) => {
    if (visited >= options.maxNodes) {
      truncated = true;
      return;
    }
    visited++;
    if (node.nodeType === 1) {
      if (context.each || special.has(node) || above.has(node)) visitElement(node, context, false);
      else out.push(node.outerHTML);
    } else if ((node.nodeType === 3 || node.nodeType === 4) && !context.invisible) {
      out.push(escape(node.data));
    }
  };

  const walkRoot = (root, each, rules) => {
    if (!each) markSpecial(root, rules);
    const inTable = TABLE_PARTS.has(root.localName);
    if (inTable) out.push('<table>');
    visitElement(root, rootContext(root, inTable, each), true);
    while (stack.length > 0) {
      const context = stack.pop();
      const node = stack.pop();
      if (context === null) out.push(node);
      else visit(node, context);
    }
    out.push(inTable ? '</table>\n' : '\n');
  };

  let roots = [document.body || document.documentElement];
  let selectorMatched = null;
  let selectorError = null;
  if (options.selector !== null) {
    try {
      const matches = new Set(document.querySelectorAll(options.selector));
      selectorMatched = matches.size;
      const isInside = (element) => {
        for (let parent = element.parentElement; parent; parent = parent.parentElement) if (matches.has(parent)) return true;
        return false;
      };
      roots = [...matches].filter((element) => !isInside(element));
    } catch (error) {
      [roots, selectorMatched, selectorError] = [[], 0, error.name];
    }
  }
  // In XML the engine writes XML; and a limit can only be kept by counting.
  const each = document.contentType !== 'text/html' || document.getElementsByTagName('*').length > options.maxNodes;
  let rules = null;
  try {
    rules = rulesAboutSight();
    if (rules) document.querySelector(rules.hiding.join() || 'html');
  } catch {
    rules = null; // a sheet of another origin, or a selector that is valid only where it stands
  }
  for (const root of roots) if (root) walkRoot(root, each, rules);
  let head = '';
  for (const element of document.querySelectorAll(
    'script[type="application/ld+json"],meta[name][content],meta[property][content],link[rel~=canonical i][href],link[rel~=alternate i][href]',
  )) head += element.outerHTML;
  return {
    // A lone surrogate is no text: JSON readers refuse it.
    html: out.join('').toWellFormed(),
    head: head.toWellFormed(),
    url: document.URL,
    base: document.baseURI,
    title: document.title.trim().toWellFormed(),
    lang: document.documentElement ? document.documentElement.getAttribute('lang') : null,
    contentType: document.contentType,
    characterSet: document.characterSet,
    selectorMatched,
    selectorError,
    nodes: visited,
    truncated,
    ...count,
  };
}

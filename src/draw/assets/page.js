'use strict';
(() => {
const root = document.documentElement;
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const make = (tag, text, parent, before) => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (parent) parent.insertBefore(made, before || null);
  return made;
};
const button = (text, parent, action, before) => {
  const made = make('button', text, parent, before);
  made.type = 'button';
  made.addEventListener('click', () => action(made));
  return made;
};

// Theme: as the system says, light, dark. A page from a file may have no storage.
const themes = ['auto', 'light', 'dark'];
let theme = 'auto';
try { theme = localStorage.getItem('lockstep-theme') || 'auto'; } catch (error) { theme = 'auto'; }
const show = (control) => {
  if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
  control.textContent = 'Theme: ' + theme;
};
show(button('', document.querySelector('header'), (control) => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  show(control);
  try { localStorage.setItem('lockstep-theme', theme); } catch (error) { return; }
}));

// Points: name for readers, tooltip for pointer and focus, arrow keys along a series and between series.
const tip = make('div', '', document.body);
tip.id = 'tip';
tip.hidden = true;
tip.setAttribute('aria-hidden', 'true');
const point_at = (point) => {
  const box = point.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
};
const show_tip = (point, text) => {
  const [x, y] = point_at(point);
  tip.textContent = text || point.getAttribute('aria-label');
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (y - tip.offsetHeight - 12 < 4 ? y + 14 : y - tip.offsetHeight - 12) + 'px';
};
const hide_tip = () => { tip.hidden = true; };
for (const chart of all('svg.chart')) {
  const points = all('.pt', chart);
  if (!points.length) continue;
  chart.setAttribute('role', 'group');
  for (const point of points) {
    const title = point.querySelector('title');
    point.setAttribute('aria-label', title.textContent);
    point.setAttribute('role', 'img');
    title.remove();
    point.addEventListener('focus', () => show_tip(point));
    point.addEventListener('blur', hide_tip);
  }
  const visible = () => points.filter((point) => !point.closest('.off'));
  chart.addEventListener('pointermove', (event) => {
    let best = null, least = 40 * 40;
    for (const point of visible()) {
      const [x, y] = point_at(point);
      const box = point.tagName === 'rect' && point.getBoundingClientRect();
      const inside = box && event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      const far = inside ? 0 : box ? Infinity : (x - event.clientX) ** 2 + (y - event.clientY) ** 2;
      if (far < least) { least = far; best = point; }
    }
    if (best) show_tip(best); else hide_tip();
  });
  chart.addEventListener('pointerleave', hide_tip);
  chart.addEventListener('keydown', (event) => {
    const from = event.target.closest('.pt');
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') hide_tip();
    if (!from || !step) return;
    event.preventDefault();
    let list = visible();
    const same = (point) => point.parentNode === from.parentNode;
    let to;
    if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      list = list.filter(same);
      to = list[list.indexOf(from) + step];
    } else {
      const groups = [...new Set(list.map((point) => point.parentNode))];
      const group = groups[groups.indexOf(from.parentNode) + step];
      const [x] = point_at(from);
      for (const point of list.filter((each) => each.parentNode === group))
        if (!to || Math.abs(point_at(point)[0] - x) < Math.abs(point_at(to)[0] - x)) to = point;
    }
    if (to) to.focus();
  });
}
for (const link of all('sup a')) {
  const text = link.title;
  link.removeAttribute('title');
  for (const event of ['focus', 'pointerenter']) link.addEventListener(event, () => show_tip(link, text));
  for (const event of ['blur', 'pointerleave']) link.addEventListener(event, hide_tip);
}
addEventListener('scroll', hide_tip, { passive: true, capture: true });

// Series can be hidden where there are several.
for (const figure of all('figure[data-names]')) {
  const names = JSON.parse(figure.dataset.names);
  if (Object.keys(names).length < 2) continue;
  const tools = make('div', '', figure, figure.querySelector('.plot').nextSibling);
  tools.className = 'tools';
  tools.setAttribute('role', 'group');
  tools.setAttribute('aria-label', 'Show or hide series');
  for (const [key, name] of Object.entries(names)) {
    const control = button(name, tools, () => {
      const is_on = control.getAttribute('aria-pressed') === 'true';
      control.setAttribute('aria-pressed', String(!is_on));
      for (const group of all(`[data-series="${key}"]`, figure)) group.classList.toggle('off', is_on);
    });
    control.setAttribute('aria-pressed', 'true');
  }
}

// Tables as CSV, with the numbers behind the text.
const field = (cell) => {
  const text = cell.dataset.v !== undefined ? cell.dataset.v : cell.classList.contains('none') ? '' : cell.dataset.t || cell.textContent;
  return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
};
const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    const area = make('textarea', '', document.body);
    area.value = text;
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
};
for (const box of all('.scroll')) {
  const tools = make('div', '', box.parentNode, box);
  tools.className = 'tools';
  button('Copy as CSV', tools, async (control) => {
    const lines = all('tr', box).map((row) => [...row.cells].map(field).join(','));
    control.textContent = await copy(lines.join('\r\n') + '\r\n') ? 'Copied' : 'The browser does not allow copying';
    setTimeout(() => { control.textContent = 'Copy as CSV'; }, 2000);
  });
}
})();

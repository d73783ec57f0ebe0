for (const box of document.querySelectorAll('.matrix:not([data-ready])')) {
  box.dataset.ready = 1;
  const data = JSON.parse(box.querySelector('script').textContent), layers = data.layers.map(l => ({
    heads: l.heads, size: l.size, top: l.top, bytes: Uint8Array.from(atob(l.bytes), c => c.charCodeAt(0))}));
  const [layerMenu, headMenu] = box.querySelectorAll('select'), spans = box.querySelectorAll('.w span'),
    canvas = box.querySelector('canvas'), most = box.querySelector('.most'), startMost = most.textContent,
    start = [...spans].map(s => s.style.getPropertyValue('--w')),
    titles = [...spans].map(s => s.title), n = spans.length;
  let at = -1;
  for (const element of box.querySelectorAll('[hidden]')) element.hidden = false;
  const menu = (element, many) => { for (let i = 0; i < many; i++) element.add(new Option(i + 1, i)); };
  menu(layerMenu, layers.length); menu(headMenu, layers[0].heads);
  function look(q) {    // where position q looks, averaged over the chosen layers and heads
    const out = new Float64Array(n), ls = layerMenu.value === '' ? layers : [layers[+layerMenu.value]];
    for (const l of ls) {
      const hs = headMenu.value === '' ? [...Array(l.heads).keys()] : [+headMenu.value];
      for (const h of hs) {
        const row = (h * n + q) * n, top = l.top[h * n + q] / 255 / hs.length / ls.length;
        for (let k = 0; k < n; k++) out[k] += l.bytes[row + k] * top;
      }
    }
    return out;
  }
  function draw() {
    const cell = Math.max(1, Math.min(18, Math.floor(440 / n))), ink = canvas.getContext('2d');
    canvas.width = canvas.height = n * cell;
    const colour = getComputedStyle(box).getPropertyValue('--heat').trim().split(/ +/).join(',');
    for (let q = 0; q < n; q++) {
      const row = look(q), top = Math.max(...row) || 1;
      for (let k = 0; k < n; k++) {
        ink.fillStyle = `rgba(${colour},${row[k] / top})`;
        ink.fillRect(k * cell, q * cell, cell, cell);
      }
    }
  }
  function show() {
    const row = at < 0 ? null : look(at), top = row ? Math.max(...row) || 1 : 1;
    spans.forEach((span, k) => {
      span.style.setProperty('--w', row ? (row[k] / top).toFixed(3) : start[k]);
      span.classList.toggle('at', k === at);
      span.title = row ? row[k].toFixed(3) : titles[k];
    });
    most.textContent = row ? top.toFixed(3) : startMost;
  }
  spans.forEach((span, k) => {
    span.addEventListener('mouseenter', () => { at = k; show(); });
    span.addEventListener('click', () => { at = k; show(); });
  });
  canvas.addEventListener('mousemove', event => {
    const q = Math.min(n - 1, Math.max(0, Math.floor(event.offsetY / canvas.clientHeight * n)));
    if (q !== at) { at = q; show(); }
  });
  for (const element of [box.querySelector('.w'), canvas]) {
    element.addEventListener('mouseleave', () => { at = -1; show(); });
  }
  for (const element of [layerMenu, headMenu]) element.addEventListener('change', () => { draw(); show(); });
  draw();
}

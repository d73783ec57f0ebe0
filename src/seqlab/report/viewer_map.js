const { keyed, make, shown, sized, within } = window.seqlabViewer;

// The large map: rows by columns, which keys and the wheel make larger, with what stands along its sides.
function largeMap(host, data, image, label, pick) {
  const rows = data.rows.words, columns = data.columns.words, timed = data.over === 'time';
  const canvas = make('canvas', { tabindex: 0, role: 'application', class: 'map', 'aria-label': label });
  const sizes = [['−', 'smaller', 1 / 2], ['+', 'larger', 2], ['whole', 'all of it', 0]];
  const buttons = sizes.map(([sign, name, factor]) => {
    const button = make('button', { type: 'button', 'aria-label': name, title: name }, sign);
    button.addEventListener('click', () => zoom(factor));
    return button;
  });
  host.append(make('div', { class: 'controls' }, ...buttons), canvas);
  const view = { zoom: 1, x: 0, y: 0 };
  let room, wide, high, left, above, last, held = null;
  const margin = (names, most) => within(16 + 7 * Math.max(...names.map(name => name.length)), 30, most);
  function layOut() {
    room = within((host.clientWidth || 640) - 130, 160, 820);
    wide = timed ? room / columns.length : Math.min(22, room / columns.length);
    high = data.same ? wide : Math.min(22, 560 / rows.length);
    left = rows.length > 1 && high * view.zoom >= 9 ? margin(rows, 118) : 8;
    above = timed ? 128 : wide * view.zoom >= 9 ? margin(columns, 92) : 8;
    view.width = wide * columns.length;
    view.height = high * rows.length;
    view.most = Math.max(1, 24 / Math.min(wide, high));
    view.zoom = within(view.zoom, 1, view.most);
    view.x = within(view.x, 0, view.width * (view.zoom - 1));
    view.y = within(view.y, 0, view.height * (view.zoom - 1));
    for (const button of buttons) button.hidden = view.most < 1.5;
  }
  function zoom(factor, x = view.width / 2, y = view.height / 2) {    // around a point of what is seen
    const before = view.zoom;
    view.zoom = factor ? within(view.zoom * factor, 1, view.most) : 1;
    view.x = (view.x + x) * view.zoom / before - x;
    view.y = (view.y + y) * view.zoom / before - y;
    draw(last);
  }
  function cell(event) {
    const scale = canvas.clientWidth / (canvas.width / (window.devicePixelRatio || 1)) || 1;
    const x = event.offsetX / scale - left, y = event.offsetY / scale - above;
    return [within(Math.floor((y + view.y) / view.zoom / high), 0, rows.length - 1),
      within(Math.floor((x + view.x) / view.zoom / wide), 0, columns.length - 1), x, y];
  }
  function follow(row, column) {    // what is picked by keys is in sight
    const w = wide * view.zoom, h = high * view.zoom;
    view.x = within(view.x, (column + 1) * w - view.width, Math.max(0, column * w));
    view.y = within(view.y, (row + 1) * h - view.height, Math.max(0, row * h));
  }
  canvas.addEventListener('keydown', event => {
    if (['+', '=', '-', '0'].includes(event.key) && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      zoom({ '-': 1 / 2, 0: 0 }[event.key] ?? 2);
    } else {
      keyed(event, ([down, across]) => {
        const row = last.row < 0 ? 0 : within(last.row + down, 0, rows.length - 1);
        const column = last.column < 0 ? 0 : within(last.column + across, 0, columns.length - 1);
        follow(row, column);
        pick(row, column);
      }, () => pick(-1, -1));
    }
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;    // without it the page scrolls
    event.preventDefault();
    const [, , x, y] = cell(event);
    zoom(event.deltaY < 0 ? 1.25 : 0.8, x, y);
  }, { passive: false });
  canvas.addEventListener('pointerdown', event => {
    held = { x: event.offsetX, y: event.offsetY, far: false };
  });
  canvas.addEventListener('pointermove', event => {
    const [row, column] = cell(event);
    const names = [rows[row], columns[column]].filter(Boolean).join(' → ');
    canvas.title = `${names}: ${shown(last.panel.at(row, column))}`;
    if (!held || !event.buttons || view.zoom === 1) return;
    held.far ||= Math.hypot(event.offsetX - held.x, event.offsetY - held.y) > 4;
    if (!held.far) return;
    view.x -= event.movementX;
    view.y -= event.movementY;
    draw(last);
  });
  canvas.addEventListener('click', event => {
    const [row, column] = cell(event), again = row === last.row && column === last.column;
    if (!held || !held.far) pick(again ? -1 : row, again ? -1 : column);
    held = null;
  });
  function words(pen, w, h) {
    const short = word => (word.length > 15 ? `${word.slice(0, 14)}…` : word);
    pen.font = '12px system-ui, sans-serif';
    const lastRow = rows.length > 1 && h >= 9 ? Math.min(rows.length, (view.y + view.height) / h) : 0;
    const lastColumn = w >= 9 ? Math.min(columns.length, (view.x + view.width) / w) : 0;
    for (let row = Math.floor(view.y / h); row < lastRow; row++) {
      pen.fillStyle = row === last.row ? last.ink.text : last.ink.soft;
      pen.textAlign = 'right';
      pen.fillText(short(rows[row]), left - 6, above + (row + 0.5) * h - view.y + 4, left - 10);
    }
    if (timed) {
      const each = Math.ceil(columns.length / view.zoom / 8);
      pen.textAlign = 'left';
      pen.fillStyle = last.ink.soft;
      for (let column = 0; column < columns.length; column += each) {
        const x = column * w - view.x;
        const time = `${columns[column].split(' ')[0]} s`;
        if (x >= 0 && x <= view.width) pen.fillText(time, left + x, above + view.height + 16);
      }
      return;
    }
    for (let column = Math.floor(view.x / w); column < lastColumn; column++) {
      pen.save();
      pen.translate(left + (column + 0.5) * w - view.x + 4, above - 6);
      pen.rotate(-Math.PI / 2);
      pen.fillStyle = column === last.column ? last.ink.text : last.ink.soft;
      pen.textAlign = 'left';
      pen.fillText(short(columns[column]), 0, 0, above - 8);
      pen.restore();
    }
  }
  function draw(now) {
    last = now;
    layOut();
    const w = wide * view.zoom, h = high * view.zoom;
    const pen = sized(canvas, left + view.width + 2, above + view.height + (timed ? 22 : 2));
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, view.width, above + view.height);
    pen.clip();
    if (timed) pen.drawImage(image, left - view.x, 0, view.width * view.zoom, above - 6);
    pen.beginPath();
    pen.rect(left, above, view.width, view.height);
    pen.clip();
    pen.imageSmoothingEnabled = w < 1 || h < 1;
    pen.drawImage(now.pixels, left - view.x, above - view.y, w * columns.length, h * rows.length);
    pen.strokeStyle = now.ink.text;
    const x = left - view.x, y = above - view.y;
    if (now.row >= 0 && rows.length > 1) pen.strokeRect(x, y + now.row * h, w * columns.length, h);
    if (now.column >= 0) pen.strokeRect(x + now.column * w, y, w, h * rows.length);
    pen.restore();
    pen.strokeStyle = now.ink.line;
    pen.strokeRect(left - 0.5, above - 0.5, view.width + 1, view.height + 1);
    words(pen, w, h);
  }
  return draw;
}

window.seqlabViewer.largeMap = largeMap;

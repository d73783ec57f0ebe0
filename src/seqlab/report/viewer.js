// Draws the panels that viewer.py hands over, and lets a person pick a panel, a row and a column of it by
// mouse, finger or keys. What is picked is said in a status line and stands in a table, too.
const { choices, inks, largeMap, make, overlay, pictureAxis, shown, sized, textAxis, unpacked } =
  window.seqlabViewer;
const WHOLE = 1600;    // cells of a table that shows all
const LISTED = 30;    // lines of one that shows the largest

function viewer(box, data) {
  const rows = data.rows.words, columns = data.columns.words, several = rows.length > 1;
  const panels = data.groups.flatMap(group => group.panels.map(
    panel => unpacked(panel, group.name, rows.length, columns.length)));
  const state = { panel: 0, row: -1, column: -1, even: data.same && columns.length > 40 }, drawn = [];
  const said = make('p', { class: 'said small', role: 'status' }), image = new Image();
  const quoted = word => `“${(word || '␣').slice(0, 40)}”`;
  const looks = data.over === 'time' ? 'listens' : 'looks';

  function pick(row, column) {
    state.row = several ? row : Math.min(row, 0);
    state.column = column;
    draw();
  }
  const pickRow = row => pick(row, data.same ? row : state.column);
  const pickColumn = column => pick(several ? (data.same ? column : state.row) : -1, column);

  function small(host) {    // layers and heads as small multiples
    if (panels.length < 2) return;
    const buttons = [], side = panels.length > 40 ? 44 : 60;
    for (const group of data.groups) {
      const line = make('div', { class: 'group' }, make('span', { class: 'soft small' }, group.name));
      for (const panel of group.panels) {
        const canvas = make('canvas', { 'aria-hidden': 'true' });
        const label = `${group.name} ${panel.name}`.trim();
        const button = make('button', { type: 'button', 'aria-label': label }, canvas);
        button.append(make('span', {}, panel.name));
        buttons.push(button);
        line.append(button);
      }
      host.append(line);
    }
    const mark = choices(host, buttons, place => { state.panel = place; draw(); });
    host.setAttribute('aria-label', 'layers and heads');
    let done = '';
    drawn.push(now => {
      mark(state.panel);
      const key = `${state.even} ${now.ink.heat}`;
      if (key === done) return;
      done = key;
      buttons.forEach((button, place) => {
        const panel = panels[place], canvas = button.firstChild;
        if (data.over === 'picture' && !several) {
          const high = side * data.size[1] / data.size[0], pen = sized(canvas, side, high);
          overlay(pen, image, side, high, data.grid, panel.row(0), data.signed, now.ink);
          return;
        }
        const wide = side * Math.min(3, Math.max(1, columns.length / rows.length));
        const high = Math.max(10, side * Math.min(1, rows.length / columns.length * 3));
        const pen = sized(canvas, wide, high);
        pen.imageSmoothingQuality = 'high';
        pen.imageSmoothingEnabled = columns.length > wide;
        pen.drawImage(panel.picture(now.ink, state.even), 0, 0, wide, high);
      });
    });
  }

  function gallery(host) {    // a picture for each row
    const buttons = rows.map(name => make('button', { type: 'button', 'aria-label': name },
      make('canvas', { 'aria-hidden': 'true' }), make('span', {}, name || '␣')));
    host.append(...buttons);
    host.setAttribute('aria-label', 'what was written, with where it looked');
    const mark = choices(host, buttons, place => pick(place === state.row ? -1 : place, state.column));
    const wide = 92, high = wide * data.size[1] / data.size[0];
    drawn.push(now => {
      mark(state.row);
      buttons.forEach((button, row) => {
        const pen = sized(button.firstChild, wide, high);
        overlay(pen, image, wide, high, data.grid, now.panel.row(row), data.signed, now.ink);
      });
    });
  }

  function axis(host, named, title, pickOne, read) {    // pieces, coloured by the picked row or column
    const heading = make('h4', {}), part = make('div', data.signed ? { class: 'signed' } : {});
    host.append(heading, part);
    const over = data.over === 'picture' && (data.same || named === data.columns);
    const show = over
      ? pictureAxis(part, data, image, title, pickOne)
      : textAxis(part, named, title, pickOne);
    drawn.push(now => {
      const [words, weights, chosen] = read(now);
      heading.textContent = words;
      if (over) show(weights, chosen, now.ink);
      else show(weights, chosen);
    });
  }

  function whatColumns({ panel, row, column }) {
    if (!several) return [data.signed ? 'what each adds' : '', panel.row(0), column];
    if (row < 0) {
      const words = data.same ? 'what each receives, on average' : 'the mean of all rows';
      return [words, panel.mean(), data.same ? -1 : column];
    }
    const words = data.same ? `where ${quoted(rows[row])} ${looks}` : `for ${quoted(rows[row])}`;
    return [words, panel.row(row), column];
  }
  function whatRows({ panel, row, column }) {
    if (column < 0) return [data.same ? 'what looks at a piece: pick one' : 'what was written', null, row];
    return [`what ${looks} at ${quoted(columns[column])}`, panel.column(column), row];
  }

  function byWeight(weights, most) {
    const order = Array.from(weights.keys());
    return order.toSorted((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b).slice(0, most);
  }
  function largest(weights, names) {
    return byWeight(weights, 3).map(place => `${quoted(names[place])} ${shown(weights[place])}`).join(', ');
  }
  function sentence({ panel, row, column }) {
    const where = panel.called ? ` (${panel.called})` : '';
    if (column >= 0 && (row !== column || !data.same) && row >= 0) {
      const from = several ? `${quoted(rows[row])} → ` : '';
      return `${from}${quoted(columns[column])}: ${shown(panel.at(row, column))}${where}`;
    }
    if (row >= 0 && several) {
      const back = data.same ? `; at it ${looks} ${largest(panel.column(row), rows)}` : '';
      return `${quoted(rows[row])} ${looks} at ${largest(panel.row(row), columns)}${back}${where}`;
    }
    const most = column < 0 ? '' : largest(panel.column(column), rows);
    if (column >= 0) return `at ${quoted(columns[column])} ${looks} ${most}${where}`;
    const all = largest(several ? panel.mean() : panel.row(0), columns);
    return `Most of all: ${all}${where}. Pick by a click or the arrow keys; Escape lets go.`;
  }

  function table(host) {    // the same in numbers
    const place = make('div', { class: 'scroll' });
    const fold = make('details', { class: 'numbers' }, make('summary', {}, 'as a table'), place);
    host.append(fold);
    const line = (cells, heads) => make('tr', {}, ...cells.map(
      (cell, at) => make(at < heads ? 'th' : 'td', {}, cell)));
    const filled = (head, body) => make('table', {}, make('thead', {}, head), make('tbody', {}, ...body));
    function fill(now) {
      if (rows.length * columns.length <= WHOLE) {
        const body = rows.map((name, row) => line([name, ...Array.from(now.panel.row(row), shown)], 1));
        place.replaceChildren(filled(line(['', ...columns], columns.length + 1), body));
        return;
      }
      const parts = [[...whatColumns(now), columns]];
      if (several && now.column >= 0) parts.push([...whatRows(now), rows]);
      place.replaceChildren(...parts.map(([title, weights, , names]) => {
        const body = byWeight(weights, LISTED).map(at => line([names[at], shown(weights[at])], 1));
        return filled(line([`${title}, the largest`, 'weight'], 2), body);
      }));
    }
    fold.addEventListener('toggle', () => { if (fold.open) fill(current()); });
    drawn.push(now => { if (fold.open) fill(now); });
  }

  function scaling(host) {
    if (!several || data.signed) return;
    const tick = make('input', { type: 'checkbox' });
    tick.checked = state.even;
    tick.addEventListener('change', () => { state.even = tick.checked; draw(); });
    host.append(make('label', { class: 'small soft' }, tick, ' each row by its own largest weight'));
  }

  function current() {
    const { row, column } = state;
    return { panel: panels[state.panel], row: several ? row : 0, column, ink: inks(box) };
  }
  let key = '', pixels = null;
  function draw() {
    const now = current(), wanted = `${state.panel} ${state.even} ${now.ink.heat}`;
    if (wanted !== key) {
      pixels = now.panel.picture(now.ink, state.even);
      key = wanted;
    }
    for (const part of drawn) part({ ...now, pixels });
    said.textContent = sentence(now);
  }

  function build() {
    const block = name => make('div', { class: name });
    const multiples = block('multiples'), stage = block('stage'), sides = block('sides');
    const side = () => sides.appendChild(block('side')), pictured = data.over === 'picture';
    box.append(multiples, stage, said);
    small(multiples);
    if (several && pictured && !data.same) gallery(stage.appendChild(block('gallery')));
    if (several && !pictured) scaling(stage);
    if (data.over === 'time' || (several && !pictured)) {
      const keys = 'arrow keys pick a cell, plus and minus change its size';
      const label = `map of ${rows.length} rows by ${columns.length} columns; ${keys}`;
      drawn.push(largeMap(stage, data, image, label, pick));
    }
    stage.append(sides);
    if (data.over !== 'time') {
      axis(side(), data.columns, 'what is looked at; arrow keys pick a piece', pickColumn, whatColumns);
    }
    if (several) axis(side(), data.rows, 'what looks; arrow keys pick a piece', pickRow, whatRows);
    table(box);
    draw();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    addEventListener('resize', draw);
  }
  if (data.picture) {
    image.addEventListener('load', build, { once: true });
    image.src = data.picture;
  } else {
    build();
  }
}

for (const box of document.querySelectorAll('.viewer:not([data-ready])')) {
  box.dataset.ready = 1;
  viewer(box, JSON.parse(box.querySelector('script').textContent));
}

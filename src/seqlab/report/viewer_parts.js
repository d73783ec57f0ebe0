// What a viewer is made of: panels, and the axes along which one of their rows and columns is picked.
// Rows and columns that a key moves by.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [-10, 0],
  PageDown: [10, 0], Home: [0, -1e9], End: [0, 1e9] };
const within = (value, low, high) => Math.min(high, Math.max(low, value));
const tiny = weight => weight !== 0 && Math.abs(weight) < 0.001;
const shown = weight => (tiny(weight) ? weight.toExponential(1) : weight.toFixed(3));
const greatest = weights => weights.reduce((top, weight) => Math.max(top, Math.abs(weight)), 0) || 1;
let numbered = 0;

function make(kind, attributes, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Colours are those of the page, which change with its scheme.
function inks(box) {
  const style = getComputedStyle(box), value = name => style.getPropertyValue(name).trim();
  const rgb = name => value(name).split(/ +/).map(Number);
  return {
    heat: rgb('--heat'), top: Number(value('--heat-top')), plus: rgb('--for'), minus: rgb('--against'),
    text: value('--text'), soft: value('--soft'), line: value('--line'),
  };
}

// A canvas that is sharp on any screen, and its pen.
function sized(canvas, width, height) {
  const dense = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * dense));
  canvas.height = Math.max(1, Math.round(height * dense));
  canvas.style.width = `${width}px`;
  const pen = canvas.getContext('2d');
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  return pen;
}

function decoded(letters) {
  const text = atob(letters), bytes = new Uint8Array(text.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
}

// The pixel of each of the 256 bytes that stand for weights: red, green, blue and how much of them.
function palette(ink, signed) {
  const pixels = new Uint32Array(256), parts = new Uint8ClampedArray(pixels.buffer);
  for (let byte = 0; byte < 256; byte++) {
    const side = byte < 128 ? ink.minus : ink.plus;
    const value = signed ? Math.min(1, Math.abs(byte - 128) / 127) : byte / 255;
    parts.set([...(signed ? side : ink.heat), 255 * ink.top * value], 4 * byte);
  }
  return pixels;
}

// A panel: its weights by row and column, and its picture with a pixel for each.
function unpacked(data, group, rows, columns) {
  const bytes = decoded(data.bytes), tops = data.tops, zero = data.signed ? 128 : 0;
  const share = data.signed ? place => (bytes[place] - 128) / 127 : place => bytes[place] / 255;
  const most = Math.max(...tops) || 1, called = [group, data.name].filter(Boolean).join(', ');
  const at = (row, column) => share(row * columns + column) * tops[row];
  const row = which => Float64Array.from({ length: columns }, (_, column) => at(which, column));
  const column = which => Float64Array.from({ length: rows }, (_, place) => at(place, which));
  function mean() {    // over the rows: what each column receives
    const sum = new Float64Array(columns);
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) sum[c] += at(r, c) / rows;
    return sum;
  }
  function picture(ink, even) {
    const canvas = make('canvas', { width: columns, height: rows }), pen = canvas.getContext('2d');
    const image = pen.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
    const colours = palette(ink, data.signed);
    for (let r = 0, place = 0; r < rows; r++) {
      const scale = even ? 1 : tops[r] / most;
      for (let c = 0; c < columns; c++, place++) {
        pixels[place] = colours[Math.round(zero + (bytes[place] - zero) * scale)];
      }
    }
    pen.putImageData(image, 0, 0);
    return canvas;
  }
  return { name: data.name, group, called, most, at, row, column, mean, picture };
}

// One of several buttons is chosen; arrow keys go from one to the next, as in a group of radio buttons.
function choices(host, buttons, choose) {
  host.setAttribute('role', 'radiogroup');
  function mark(chosen) {
    buttons.forEach((button, place) => {
      button.setAttribute('aria-checked', place === chosen);
      button.tabIndex = place === Math.max(0, chosen) ? 0 : -1;
    });
  }
  buttons.forEach((button, place) => {
    button.setAttribute('role', 'radio');
    button.addEventListener('click', () => choose(place));
    button.addEventListener('keydown', event => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      const next = within(place + step[0] + step[1], 0, buttons.length - 1);
      buttons[next].focus();
      choose(next);
    });
  });
  return mark;
}

// Pieces of a text, as dark as their weights. One is picked with the arrow keys or by a click.
function textAxis(host, named, label, pick) {
  const id = `seqlab-${numbered++}`, kind = named.tight ? 'w tight' : 'w';
  const spans = named.words.map(
    (word, place) => make('span', { role: 'option', id: `${id}-${place}` }, word || '␣'));
  const line = make('p', { class: kind, role: 'listbox', tabindex: 0, 'aria-label': label });
  spans.forEach((span, place) => line.append(named.gaps[place] === '1' ? ' ' : '', span));
  host.append(line);
  let at = -1;
  line.addEventListener('click', event => {
    const place = spans.indexOf(event.target);
    if (place >= 0) pick(place === at ? -1 : place);
  });
  const move = ([down, across]) => pick(within(at + down + across, 0, spans.length - 1));
  line.addEventListener('keydown', event => keyed(event, move, () => pick(-1)));
  return (weights, chosen) => {
    const most = weights ? greatest(weights) : 1;
    spans.forEach((span, place) => {
      const weight = weights ? weights[place] : 0;
      span.style.setProperty('--w', (Math.abs(weight) / most).toFixed(3));
      span.className = (weight < 0 ? 'n' : '') + (place === chosen ? ' at' : '');
      span.setAttribute('aria-selected', place === chosen);
      span.title = weights ? shown(weight) : '';
    });
    at = chosen;
    if (chosen >= 0) line.setAttribute('aria-activedescendant', `${id}-${chosen}`);
    else line.removeAttribute('aria-activedescendant');
  };
}

function keyed(event, move, leave) {
  const step = STEPS[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!step && event.key !== 'Escape')) return;
  event.preventDefault();
  if (step) move(step);
  else leave();
}

// A picture, darker where less weight lies; of signed weights, in the colours of for and against.
function overlay(pen, image, width, height, grid, weights, signed, ink) {
  const [down, across] = grid, most = greatest(weights);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, width, height);
  weights.forEach((weight, place) => {
    const x = place % across, y = Math.floor(place / across), part = weight / most;
    const left = Math.round(x * width / across), top = Math.round(y * height / down);
    const colour = signed ? (part < 0 ? ink.minus : ink.plus) : [0, 0, 0];
    pen.fillStyle = `rgba(${colour.join(',')},${0.75 * (signed ? Math.abs(part) : 1 - part)})`;
    const right = Math.round((x + 1) * width / across), bottom = Math.round((y + 1) * height / down);
    pen.fillRect(left, top, right - left, bottom - top);
  });
}

function pictureAxis(host, data, image, label, pick) {
  const [down, across] = data.grid, scale = 320 / Math.max(...data.size);
  const [width, height] = data.size.map(side => side * scale);
  const canvas = make('canvas', { tabindex: 0, role: 'application', class: 'picture', 'aria-label': label });
  host.append(canvas);
  let at = -1;
  canvas.addEventListener('click', event => {
    const x = within(Math.floor(event.offsetX / canvas.clientWidth * across), 0, across - 1);
    const y = within(Math.floor(event.offsetY / canvas.clientHeight * down), 0, down - 1);
    pick(y * across + x === at ? -1 : y * across + x);
  });
  canvas.addEventListener('keydown', event => keyed(event, ([rows, columns]) => {
    const y = at < 0 ? 0 : within(Math.floor(at / across) + rows, 0, down - 1);
    const x = at < 0 ? 0 : within(at % across + columns, 0, across - 1);
    pick(y * across + x);
  }, () => pick(-1)));
  return (weights, chosen, ink) => {
    at = chosen;
    const pen = sized(canvas, width, height);
    const drawn = weights || new Float64Array(down * across);    // none yet: the picture as it is
    overlay(pen, image, width, height, data.grid, drawn, data.signed || !weights, ink);
    if (chosen < 0) return;
    const wide = width / across, high = height / down;
    pen.strokeStyle = `rgb(${ink.heat.join(',')})`;
    pen.lineWidth = 3;
    pen.strokeRect(chosen % across * wide, Math.floor(chosen / across) * high, wide, high);
  };
}

window.seqlabViewer = {
  choices, inks, keyed, make, overlay, pictureAxis, shown, sized, textAxis, unpacked, within,
};

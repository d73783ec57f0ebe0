const { keyed, make, within } = window.seqlabViewer;

// Lines of coloured text that the page holds already: arrow keys go from piece to piece, which is said with
// its weight in every line.
function reader(box) {
  const lines = [...box.querySelectorAll('.w')].map(line => [...line.querySelectorAll('span')]);
  const said = make('p', { class: 'said small', role: 'status' });
  const named = box.querySelectorAll('.hop > b, .sentence .num');
  const names = lines.map((_, place) => named[place]?.textContent ?? '');
  const apart = box.querySelector('.sentence') !== null;    // each line has pieces of its own
  lines.forEach((spans, number) => {
    const line = spans.length ? spans[0].parentElement : null;
    if (!line) return;
    let at = -1;
    line.tabIndex = 0;
    line.setAttribute('role', 'listbox');
    const label = [names[number], 'arrow keys read the weight of each piece'].filter(Boolean).join(': ');
    line.setAttribute('aria-label', label);
    function go(place) {
      for (const span of lines.flat()) span.classList.remove('at');
      at = place;
      if (place < 0) {
        said.textContent = '';
        return;
      }
      const alike = lines.map((some, row) => [some[place], names[row]]);
      const here = apart ? [[spans[place], names[number]]] : alike;
      for (const [span] of here) span?.classList.add('at');
      const weights = here.map(([span, name]) => `${name} ${span?.title ?? ''}`.trim());
      said.textContent = `“${spans[place].textContent}”: ${weights.join(', ')}`;
    }
    spans.forEach((span, place) => {
      span.setAttribute('role', 'option');
      span.addEventListener('click', () => go(place === at ? -1 : place));
    });
    const move = ([down, across]) => go(within(at + down + across, 0, spans.length - 1));
    line.addEventListener('keydown', event => keyed(event, move, () => go(-1)));
  });
  const fold = make('details', { class: 'numbers' }, make('summary', {}, 'as a table'));
  fold.addEventListener('toggle', () => {
    if (!fold.open || fold.querySelector('table')) return;
    const body = lines.flatMap((spans, number) => spans.map(span => make('tr', {},
      ...[names[number], span.textContent, span.title].map(cell => make('td', {}, cell)))));
    fold.append(make('div', { class: 'scroll' }, make('table', {}, make('tbody', {}, ...body))));
  });
  box.append(said, fold);
}

for (const box of document.querySelectorAll('.lines:not([data-ready])')) {
  box.dataset.ready = 1;
  reader(box);
}

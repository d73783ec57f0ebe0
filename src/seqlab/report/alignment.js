for (const box of document.querySelectorAll('.align:not([data-ready])')) {
  box.dataset.ready = 1;
  const layers = JSON.parse(box.querySelector('script').textContent).map(layer => ({
    heads: layer.heads, bytes: Uint8Array.from(atob(layer.bytes), c => c.charCodeAt(0))}));
  const [layerMenu, headMenu] = box.querySelectorAll('select'), cells = box.querySelectorAll('td'),
    names = [...cells].map(cell => cell.title.replace(/: [^:]*$/, ''));
  const menu = (element, many) => { for (let i = 0; i < many; i++) element.add(new Option(i + 1, i)); };
  menu(layerMenu, layers.length); menu(headMenu, layers[0].heads);
  box.querySelector('.controls').hidden = layers.length * layers[0].heads < 2;
  function show() {    // the mean of the chosen layers and heads
    const ls = layerMenu.value === '' ? layers : [layers[+layerMenu.value]];
    cells.forEach((cell, place) => {
      let sum = 0, many = 0;
      for (const l of ls) {
        for (const h of headMenu.value === '' ? [...Array(l.heads).keys()] : [+headMenu.value]) {
          sum += l.bytes[h * cells.length + place] / 255; many++;
        }
      }
      cell.style.setProperty('--w', (sum / many).toFixed(3));
      cell.title = `${names[place]}: ${(sum / many).toFixed(3)}`;
    });
  }
  for (const element of [layerMenu, headMenu]) element.addEventListener('change', show);
}

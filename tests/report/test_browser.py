"""Pages of maps in Chromium: nothing goes wrong, nothing is asked of the network, and keys are enough."""

import pytest
from browser import CHROMIUM, Page, chromium
from explained import CAPTION, TIMES, WORDS, WRITTEN, every_kind, long_text

from seqlab.report.maps import html_notebook
from seqlab.report.rollout import rollout

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")
KINDS = every_kind()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser, tmp_path):
    pages = []

    def page_of(explanation):
        pages.append(Page(browser, explanation.save(tmp_path / f"map-{len(pages)}.html")))
        return pages[-1]

    yield page_of
    for page in pages:
        page.close()


def status(page, place=0):
    """What a screen reader is told last."""
    return page.run(f"document.querySelectorAll('[role=status]')[{place}].textContent")


def at(page, text):
    """Tab from part to part, and from the end to the top, until what has the focus has these words in its
    label."""
    page.run("document.activeElement.blur()")
    focused = (
        "((one) => one === document.body ? '' : one.ariaLabel || one.textContent)(document.activeElement)"
    )
    for _ in range(60):
        page.press("Tab")
        if text in (label := page.run(focused)):
            return label
    raise AssertionError(f"Tab never comes to {text!r}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_map_is_drawn_without_a_fault_and_without_a_network(kind, opened):
    page = opened(KINDS[kind])
    page.wait("[...document.querySelectorAll('.viewer, .lines')].every(box => box.querySelector('.said'))")
    named = "canvas:not([aria-hidden]), svg, [role=listbox], [role=radiogroup], button"
    nameless = f"[...document.querySelectorAll('{named}')].filter(one => !(one.ariaLabel || one.textContent))"
    assert page.run(f"{nameless}.length") == 0, "everything that is drawn or worked has a name"
    page.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    tables = "document.querySelectorAll('details.numbers table').length"
    page.wait(f"{tables} === document.querySelectorAll('details.numbers').length")
    drawn = "one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(byte => byte > 0)"
    assert page.run(f"[...document.querySelectorAll('canvas')].every(one => {drawn})")
    assert page.run("document.querySelector('main').scrollWidth <= document.body.clientWidth")
    assert page.run("document.querySelectorAll('main :is(i, b) :is(i, b), span i').length") == 0
    assert (page.asked, page.faults) == ([], [])


def test_keys_alone_choose_a_panel_a_row_and_a_column(opened):
    page, layers = opened(KINDS["self-attention"]), KINDS["self-attention"].maps[1:]

    assert at(page, "mean") == "all layers mean"
    page.press("ArrowRight", "ArrowRight")
    checked = "document.querySelector('[role=radio][aria-checked=true]').ariaLabel"
    assert page.run(checked) == page.run("document.activeElement.ariaLabel") == "all layers rollout"
    at(page, "map of 11 rows")
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")  # the first key goes to the first cell
    weight = rollout([one.weights for one in layers])[2, 1]
    assert status(page) == f"“is” → “movie”: {weight:.3f} (all layers, rollout)"
    page.press("Escape")
    assert "Most of all" in status(page)

    at(page, "rollout")
    page.press("ArrowRight", "ArrowRight")
    at(page, "what is looked at")
    page.press("ArrowRight", "End")
    head = layers[0].weights[1]
    row, column = head[-1], head[:, -1]
    said = status(page)
    assert f"“twice” looks at “{WORDS[row.argmax()]}” {row.max():.3f}" in said
    assert f"at it looks “{WORDS[column.argmax()]}” {column.max():.3f}" in said and "layer 1, head 2" in said
    page.press("Enter")
    assert page.run("document.querySelectorAll('.viewer [aria-selected=true]').length") == 2


def test_a_table_has_the_numbers_of_the_panel_that_is_chosen(opened):
    page, maps = opened(KINDS["alignment"]), KINDS["alignment"].maps
    at(page, "as a table")
    page.press("Enter")
    page.wait("document.querySelector('details.numbers td') !== null")
    body = "[...document.querySelectorAll('details.numbers')][0].querySelectorAll('tbody tr')"
    cells = f"[...{body}].map(row => [...row.children].map(one => one.textContent))"
    rows = page.run(cells)
    assert [row[0] for row in rows] == [piece.lstrip("▁") for piece in WRITTEN]
    assert [[float(cell) for cell in row[1:]] for row in rows] == [
        pytest.approx(row.tolist(), abs=0.003) for row in maps[0].weights[0]
    ]
    at(page, "mean")
    page.press("ArrowRight", "ArrowRight")
    first = [float(cell) for cell in page.run(cells)[0][1:]]
    assert first == pytest.approx(maps[1].weights[0, 0].tolist(), abs=0.003)


def test_words_of_a_caption_and_slots_of_the_picture_are_picked_by_keys(opened):
    page, weights = opened(KINDS["caption"]), KINDS["caption"].maps[0].weights[0]
    page.wait("document.querySelector('.gallery') !== null")
    at(page, CAPTION[0])
    page.press("ArrowRight")
    assert page.run("document.activeElement.textContent") == "red"
    best = int(weights[1].argmax())
    assert f"“red” looks at “{best % 6 + 1},{best // 6 + 1}” {weights[1].max():.3f}" in status(page)
    at(page, "what is looked at")
    page.press("ArrowRight", "ArrowDown", "ArrowRight")
    assert status(page) == f"“red” → “2,2”: {weights[1, 7]:.3f}"


def test_times_of_a_recording_are_picked_by_keys(opened):
    page, weights = opened(KINDS["speech"]), KINDS["speech"].maps[0].weights.mean(axis=0)
    page.wait("document.querySelector('canvas.map') !== null")
    at(page, "map of 5 rows")
    page.press("ArrowDown", "ArrowDown", "End")
    assert status(page) == f"“e” → “{TIMES[-1]}”: {weights[1, -1]:.3f} (all heads, mean)"


def test_the_words_of_hops_are_read_with_their_weight_in_each(opened):
    page, weights = opened(KINDS["hops"]), KINDS["hops"].maps[0].weights
    at(page, "hop 2")
    page.press("ArrowRight", "ArrowRight")
    hops = ", ".join(f"hop {number} {weight:.4f}" for number, weight in enumerate(weights[:, 1], 1))
    assert status(page) == f"“movie”: {hops}"


def test_a_map_of_512_by_512_opens_in_two_seconds_and_grows(opened):
    page = opened(long_text())
    page.wait("document.querySelector('.viewer .said') !== null")
    assert page.seconds() < 2, "of one processor, whatever else the machine does"
    at(page, "map of 512 rows")
    pixels = "document.querySelector('canvas.map').toDataURL()"
    before = page.run(pixels)
    page.press("+", "+", "ArrowDown", "ArrowDown")
    assert page.run(pixels) != before and "“w1” → “w0”" in status(page)
    assert (page.asked, page.faults) == ([], [])


def test_colours_follow_the_scheme_of_the_system(opened):
    """The page by its style sheet, and the map as soon as it is drawn anew."""
    page = opened(KINDS["self-attention"])
    drawn, ground = "document.querySelector('canvas.map').toDataURL()", []
    for scheme in ("light", "dark"):
        page.run(f"window.before = {drawn}; 0")
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.wait(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        ground.append(page.run("getComputedStyle(document.body).backgroundColor"))
    page.wait(f"{drawn} !== window.before")
    assert ground[0] != ground[1]


def test_several_cells_of_a_notebook_do_not_disturb_each_other(browser, tmp_path):
    cells = "".join(html_notebook(KINDS[kind]) for kind in ("self-attention", "alignment", "hops"))
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{cells}", encoding="utf-8")
    page = Page(browser, path)
    assert page.run("document.querySelectorAll('.viewer > .said, .lines > .said').length") == 12
    at(page, "map of 7 rows")
    page.press("ArrowDown", "ArrowRight")
    assert "“ce” → “movie”" in status(page, 4) and "Most of all" in status(page, 0)
    assert (page.asked, page.faults) == ([], [])
    page.close()

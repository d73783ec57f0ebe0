"""Pictures: of every mode and form, brought to one size; and what is said of those that are at fault."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from made import write_table
from PIL import Image

from seqlab.data.columns import Role
from seqlab.data.picture_table import PictureTable, pictures_in
from seqlab.data.pictures import Picture, PictureConfig, PictureFault, decoded, of_array, opened
from seqlab.data.read import Bad, DataConfig, Row
from seqlab.errors import UserError
from seqlab.fields.image import IMAGE, ImageField, ImageLook, augmented
from seqlab.fields.label import LabelField
from seqlab.fields.target import CAPTION

KEPT = PictureConfig()
RED = (200, 30, 20)
[LABEL] = LabelField().roles()


def packed(image: Image.Image, ending: str = "png", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, ending, **options)
    return file.getvalue()


def plain(width: int = 12, height: int = 8, colour: tuple[int, int, int] = RED) -> Image.Image:
    return Image.new("RGB", (width, height), colour)


# One picture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "I;16", "I", "F", "YCbCr"])
def test_every_mode_becomes_red_green_and_blue(mode):
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 12), 40_000, np.uint16))
        wanted = [40_000 * 255 // 65_535] * 3
    elif mode in ("I", "F"):
        image = Image.fromarray(np.full((8, 12), 99, np.int32 if mode == "I" else np.float32))
        wanted = [99] * 3
    else:
        image = plain().convert(mode)
        wanted = list(image.convert("RGB").getpixel((0, 0)))
    ending = "TIFF" if mode in ("F", "CMYK", "YCbCr", "LA", "I") else "PNG"
    found = decoded(packed(image, ending), "one", KEPT).pixels
    assert found.shape == (8, 12, 3) and found.dtype == np.uint8
    assert np.abs(found[0, 0].astype(int) - wanted).max() <= 1


def test_grey_of_sixteen_bits_stays_as_dark_as_it_is():
    """200 of 65,535 is next to black, and 0.5 of an image of real numbers half grey."""
    dark = Image.fromarray(np.full((8, 12), 200, np.uint16))
    assert (decoded(packed(dark), "one", KEPT).pixels <= 1).all()
    half = Image.fromarray(np.full((8, 12), 0.5, np.float32))
    assert (np.abs(decoded(packed(half, "TIFF"), "one", KEPT).pixels.astype(int) - 127.5) < 1).all()


def test_what_is_transparent_becomes_white():
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert (decoded(packed(clear), "one", KEPT).pixels == 255).all()
    array = np.dstack([np.full((4, 4, 3), 50), np.full((4, 4, 1), 0)]).astype(np.uint8)
    assert (of_array(array, "one", KEPT).pixels == 255).all()


def test_a_picture_is_turned_as_its_camera_was_held():
    image = plain(12, 8)
    exif = image.getexif()
    exif[0x0112] = 6  # the camera was turned to the right
    turned = decoded(packed(image, "JPEG", exif=exif), "one", KEPT)
    assert turned.pixels.shape == (12, 8, 3)


@pytest.mark.parametrize(
    ("config", "given", "wanted"),
    [
        (KEPT, (12, 8), (8, 12)),
        (KEPT, (200, 100), (64, 64)),
        (KEPT, (200, 30), (30, 64)),
        (PictureConfig(size=16), (12, 8), (16, 16)),
        (PictureConfig(size=16, fit="crop"), (40, 20), (16, 16)),
        (PictureConfig(fit="crop"), (40, 20), (20, 20)),
    ],
)
def test_sizes(config, given, wanted):
    assert decoded(packed(plain(*given)), "one", config).pixels.shape[:2] == wanted


def test_cropping_keeps_the_middle():
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 255
    assert (of_array(pixels, "one", PictureConfig(fit="crop")).pixels == 255).all()


def test_arrays_may_be_grey_or_shares():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (of_array(grey, "one", KEPT).pixels == grey[..., None]).all()
    shares = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4, 1)
    assert of_array(shares, "one", KEPT).pixels.max() == 255
    for wrong in (np.zeros((2, 2, 5)), np.zeros(4), np.full((2, 2), -1), np.full((2, 2), np.nan)):
        with pytest.raises(PictureFault):
            of_array(wrong, "one", KEPT)


def test_a_picture_is_kept_in_a_cell_whatever_its_name_is():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    again = Picture.unpacked(Picture(pixels, "a|b|c.png").packed())
    assert np.array_equal(again.pixels, pixels) and again.name == "a|b|c.png"


def test_what_a_user_may_give(tmp_path):
    plain().save(tmp_path / "a.png")
    wanted = np.asarray(plain())
    for given in (tmp_path / "a.png", str(tmp_path / "a.png"), wanted, plain(), Picture(wanted)):
        assert np.array_equal(opened(given, KEPT).pixels, wanted)


# At fault ---------------------------------------------------------------------------------------------------


def huge_png(width: int, height: int) -> bytes:
    """A few bytes that say they are a picture of so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8))
FAULTY = {
    "empty": (b"", "is empty"),
    "no picture": (b"hello, I am a text", "is not a picture"),
    "cut png": (packed(NOISE)[:900], "is damaged or cut off"),
    "cut jpeg": (packed(NOISE, "JPEG")[:900], "is damaged or cut off"),
    "cut gif": (packed(NOISE.convert("P"), "GIF")[:900], "damaged or cut off|not a picture"),
    "ours": (huge_png(9_000, 9_000), "9,000 × 9,000 pixels, more than 64,000,000"),
    "Pillow's": (huge_png(30_000, 30_000), "which Pillow refuses"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_picture_at_fault_is_told_by_name(name):
    data, told = FAULTY[name]
    with pytest.raises(PictureFault, match=told) as fault:
        decoded(data, "cats/tom.png", KEPT)
    assert "cats/tom.png" in fault.value.what and fault.value.fix


def test_formats_that_pillow_hands_to_other_programs_are_not_opened():
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    with pytest.raises(PictureFault, match="is not a picture"):
        decoded(script, "one.png", KEPT)


def test_many_threads_at_once_leave_the_warnings_of_the_process_as_they_were():
    before = list(warnings.filters)
    data = packed(NOISE)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: decoded(data, "one", KEPT), range(200)))
    assert warnings.filters == before


# Rows with pictures -----------------------------------------------------------------------------------------


def rows_of(names: list[Path], roles: list[Role], **settings: object) -> list[Row | Bad]:
    return list(PictureTable([str(name) for name in names], DataConfig(**settings), roles))


def shade(row: Row | Bad) -> int:
    assert isinstance(row, Row), row
    return int(Picture.unpacked(row.cells["image"]).pixels[0, 0, 0])


@pytest.fixture()
def shelf(tmp_path):
    """Pictures whose red tells which they are, in every form."""
    (tmp_path / "photos").mkdir()
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for number in range(4):
            data = packed(plain(colour=(50 * number, 0, 0)))
            (tmp_path / "photos" / f"{number}.png").write_bytes(data)
            archive.writestr(f"deep/{number}.png", data)
            label = tmp_path / "folders" / ("odd" if number % 2 else "even")
            label.mkdir(parents=True, exist_ok=True)
            (label / f"{number}.png").write_bytes(data)
    images = np.stack([np.asarray(plain(colour=(50 * number, 0, 0))) for number in range(4)])
    np.savez(tmp_path / "photos.npz", images=images, labels=["a", "b", "a", "b"])
    table = [(f"{number}.png", "ab"[number % 2]) for number in (2, 0, 3, 1)]
    write_table(tmp_path / "table.csv", table, ("image", "label"))
    write_table(tmp_path / "plain.csv", [("a",), ("b",), ("a",), ("b",)], ("label",))
    return tmp_path


@pytest.mark.parametrize("images", ["photos", "photos.zip"])
def test_pictures_are_found_by_the_names_in_a_column(shelf, images):
    rows = rows_of([shelf / "table.csv"], [IMAGE, LABEL], images=str(shelf / images))
    assert [shade(row) for row in rows] == [100, 0, 150, 50]
    assert [row.cells["label"] for row in rows] == ["a", "a", "b", "b"] and rows[0].record["image"] == "2.png"


def test_pictures_lie_beside_the_table_unless_told(shelf):
    (shelf / "photos").rename(shelf / "images")
    assert [shade(row) for row in rows_of([shelf / "table.csv"], [IMAGE, LABEL])] == [100, 0, 150, 50]
    (shelf / "images").rename(shelf / "elsewhere")
    assert [shade(row) for row in rows_of([shelf / "table.csv"], [IMAGE, LABEL])] == [
        100,
        0,
        150,
        50,
    ]  # the .zip


def test_row_i_has_image_i_of_an_array(shelf):
    rows = rows_of([shelf / "plain.csv"], [IMAGE, LABEL], images=str(shelf / "photos.npz"))
    assert [shade(row) for row in rows] == [0, 50, 100, 150]
    (shelf / "photos.npz").rename(shelf / "plain.npz")
    assert [shade(row) for row in rows_of([shelf / "plain.csv"], [IMAGE, LABEL])] == [0, 50, 100, 150]


def test_a_faulty_row_takes_its_image_with_it(shelf):
    (shelf / "plain.csv").write_text("label,other\na,1\nb\na,1\nb,1\n")
    rows = rows_of([shelf / "plain.csv"], [IMAGE, LABEL], images=str(shelf / "photos.npz"))
    assert isinstance(rows[1], Bad) and [shade(row) for row in (rows[0], *rows[2:])] == [0, 100, 150]


def test_several_tables_go_through_one_array_together(shelf):
    for name in ("one", "two"):
        write_table(shelf / f"{name}.csv", [("a",), ("b",)], ("label",))
    files = [shelf / "one.csv", shelf / "two.csv"]
    rows = rows_of(files, [IMAGE, LABEL], images=str(shelf / "photos.npz"))
    assert [shade(row) for row in rows] == [0, 50, 100, 150]


def test_folders_are_labels(shelf):
    rows = rows_of([shelf / "folders"], [IMAGE, LABEL])
    assert [(row.cells["label"], shade(row)) for row in rows] == [
        ("even", 0), ("even", 100), ("odd", 50), ("odd", 150)
    ]  # fmt: skip
    assert str(rows[0].place).endswith("folders/even/0.png")
    with zipfile.ZipFile(shelf / "labels.zip", "w") as archive:
        for name in pictures_in(shelf / "folders"):
            archive.write(shelf / "folders" / name, name)
    zipped = rows_of([shelf / "labels.zip"], [IMAGE, LABEL])
    assert [row.cells for row in zipped] == [
        {**row.cells, "image": zipped[place].cells["image"]} for place, row in enumerate(rows)
    ]
    assert [shade(row) for row in zipped] == [shade(row) for row in rows]


def test_arrays_alone_have_an_array_for_each_column(shelf):
    rows = rows_of([shelf / "photos.npz"], [IMAGE, LABEL])
    assert [(row.cells["label"], shade(row)) for row in rows] == [("a", 0), ("b", 50), ("a", 100), ("b", 150)]
    assert str(rows[3].place).endswith("photos.npz:4")


def test_a_missing_or_broken_picture_is_told_with_its_row(shelf):
    (shelf / "photos" / "3.png").write_bytes(b"nothing")
    (shelf / "photos" / "0.png").unlink()
    rows = rows_of([shelf / "table.csv"], [IMAGE, LABEL], images=str(shelf / "photos"))
    missing, broken = rows[1], rows[2]
    assert isinstance(missing, Bad) and str(missing.place).endswith("table.csv:3")
    assert "0.png: there is no such file" in missing.what
    assert isinstance(broken, Bad) and "3.png is not a picture" in broken.what
    zipped = rows_of([shelf / "table.csv"], [IMAGE, LABEL], images=str(shelf / "photos.zip"))
    assert [shade(row) for row in zipped] == [100, 0, 150, 50]
    write_table(shelf / "other.csv", [("9.png", "a")], ("image", "label"))
    [row] = rows_of([shelf / "other.csv"], [IMAGE, LABEL], images=str(shelf / "photos.zip"))
    assert isinstance(row, Bad) and "photos.zip has no member 9.png" in row.what


def test_members_of_an_archive_are_found_by_their_end_unless_several_have_it(shelf):
    with zipfile.ZipFile(shelf / "deep.zip", "w") as archive:
        for number, name in enumerate(("all/cat/1.png", "all/dog/1.png", "all/dog/2.png", "1.gif")):
            archive.writestr(name, packed(plain(colour=(50 * number, 0, 0))))
    names = ["cat/1.png", "./dog/1.png", "2.png", "all/dog/2.png", "dog\\2.png", "1.png"]
    write_table(shelf / "deep.csv", [(name, "a") for name in names], ("image", "label"))
    *found, twice = rows_of([shelf / "deep.csv"], [IMAGE, LABEL], images=str(shelf / "deep.zip"))
    assert [shade(row) for row in found] == [0, 50, 100, 100, 100]
    assert (
        isinstance(twice, Bad) and "2 members that end in 1.png: all/cat/1.png, all/dog/1.png" in twice.what
    )


def test_a_broken_member_of_an_archive_is_told_with_its_row(shelf):
    with zipfile.ZipFile(shelf / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            archive.writestr(f"{number}.png", packed(NOISE))
    data = bytearray((shelf / "packed.zip").read_bytes())
    data[60:160] = bytes(range(100))  # in the middle of the first member
    (shelf / "packed.zip").write_bytes(data)
    rows = rows_of([shelf / "table.csv"], [IMAGE, LABEL], images=str(shelf / "packed.zip"))
    assert [isinstance(row, Bad) for row in rows] == [False, True, False, False]
    assert "0.png can't be unpacked" in rows[1].what and str(rows[1].place).endswith("table.csv:3")


def test_where_pictures_lie_is_not_decided_by_one_that_is_missing(shelf):
    (shelf / "photos").rename(shelf / "images")
    (shelf / "photos.zip").unlink()
    (shelf / "images" / "2.png").unlink()
    first, *others = rows_of([shelf / "table.csv"], [IMAGE, LABEL])
    assert isinstance(first, Bad) and [shade(row) for row in others] == [0, 150, 50]


def test_arrays_of_several_captions_and_of_numbers_are_checked_as_tables_are(shelf):
    images = np.load(shelf / "photos.npz")["images"]
    captions = np.array([["red", "dark red"], ["one", ""], ["", "two"], ["a", "b"]])
    np.savez(shelf / "said.npz", images=images, captions=captions, size=["1", "2.5", "many", "3"])
    rows = rows_of([shelf / "said.npz"], [IMAGE, CAPTION])
    assert [row.cells["caption"] for row in rows if isinstance(row, Row)] == [
        '["red", "dark red"]', '["one"]', '["a", "b"]'
    ]  # fmt: skip
    assert isinstance(rows[2], Bad) and "caption 1 of 2 is empty" in rows[2].what
    numbers = rows_of([shelf / "said.npz"], [IMAGE, Role("number", ("size",), number=True)])
    assert isinstance(numbers[2], Bad) and 'the number "many" is not a number' in numbers[2].what


def test_a_column_that_is_told_and_not_there_is_refused(shelf):
    for told, words in (
        ({"label": "kind"}, "no array for the label, kind"),
        ({"image": "pixels"}, "no array in it"),
    ):
        with pytest.raises(UserError, match=words):
            rows_of([shelf / "photos.npz"], [IMAGE, LABEL], columns=told)
    images = np.load(shelf / "photos.npz")["images"]
    np.savez(shelf / "two.npz", images=images, other=images[::-1], labels=["a"] * 4)
    rows = rows_of([shelf / "two.npz"], [IMAGE, LABEL], columns={"image": "other"})
    assert [shade(row) for row in rows] == [150, 100, 50, 0]


def test_too_few_images_are_told_with_their_row(shelf):
    write_table(shelf / "five.csv", [("a",)] * 5, ("label",))
    rows = rows_of([shelf / "five.csv"], [IMAGE, LABEL], images=str(shelf / "photos.npz"))
    assert isinstance(rows[4], Bad) and "has 4 images, and this is row 5" in rows[4].what


@pytest.mark.parametrize(
    ("images", "told"),
    [
        ("nowhere", "there is no such folder or file"),
        ("table.csv", "this kind of file is not known"),
        ("bad.zip", "this is no whole zip archive"),
        ("bad.npz", "this is no whole .npz file"),
        ("single.npz", "one array without a name"),
        ("changed.npz", "this is no whole .npz file"),
        ("text.npz", "no array in it holds pictures"),
    ],
)
def test_what_can_hold_no_pictures_is_refused(shelf, images, told):
    (shelf / "bad.zip").write_bytes((shelf / "photos.zip").read_bytes()[:-30])
    (shelf / "bad.npz").write_bytes(b"none")
    with (shelf / "single.npz").open("wb") as file:
        np.save(file, np.zeros((4, 8, 8, 3), np.uint8))
    noise = np.random.default_rng(0).integers(0, 256, (4, 20, 20, 3)).astype(np.uint8)
    np.savez_compressed(shelf / "changed.npz", images=noise)
    data = bytearray((shelf / "changed.npz").read_bytes())
    data[200:400] = bytes(200)
    (shelf / "changed.npz").write_bytes(data)
    np.savez(shelf / "text.npz", words=np.array(["a", "b"]))
    with pytest.raises(UserError, match=told):
        rows_of([shelf / "table.csv"], [IMAGE, LABEL], images=str(shelf / images))


def test_an_npz_of_objects_is_never_unpickled(shelf):
    np.savez(shelf / "evil.npz", images=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(UserError, match="this is no whole"):
        rows_of([shelf / "plain.csv"], [IMAGE, LABEL], images=str(shelf / "evil.npz"))


def test_without_a_column_or_arrays_it_says_what_is_missing(shelf):
    with pytest.raises(UserError, match=r"no column for the image, and no plain\.npz"):
        rows_of([shelf / "plain.csv"], [IMAGE, LABEL])


# Training sees them changed a little ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "allowed"),
    [
        (["a cat", "two dogs"], True),
        (["a cat", "a cat to the LEFT of a dog"], False),
        (["rechts", "hoch"], False),
        (["cleft", "bright"], True),
        (["7", "3"], False),
        (["-12.5", "0,25"], False),
        (["b", "d"], False),
    ],
)
def test_pictures_are_mirrored_unless_words_or_numbers_may_speak_of_a_side(texts, allowed):
    look, cell = ImageLook(), Picture(np.zeros((2, 2, 3), np.uint8)).packed()
    for text in texts:
        look.see({"image": cell, "label": text}, 0)
    assert look.mirrors is allowed


def test_the_same_pixels_are_one_picture_whatever_they_are_called():
    field, pixels = ImageField(), np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    marks = {field.mark({"image": Picture(pixels, name).packed()}) for name in ("a.png", "b|c.png", "")}
    assert len(marks) == 1 != field.mark({"image": Picture(pixels[::-1], "a.png").packed()})


def test_what_training_sees_follows_from_seed_epoch_and_row_alone():
    pixels = torch.randint(0, 256, (6, 24, 24, 3), dtype=torch.uint8)
    rows = np.array([4, 9, 2, 7, 11, 3])
    all_of_them = augmented(pixels, rows, (5, 1), True)
    one = augmented(pixels[2:3], rows[2:3], (5, 1), True)
    assert torch.equal(all_of_them[2:3], one)
    others = [augmented(pixels, rows, seeds, True) for seeds in ((5, 2), (6, 1))]
    assert all(not torch.equal(all_of_them, other) for other in others)


def test_what_training_sees_is_one_pixel_after_the_other_of_the_picture():
    """The pixel at (y, x) is that at (y + down, x + across), or the nearest there is, from a mirror or not;
    then v becomes (v − mean) · contrast + mean · brightness."""
    pixels = np.random.default_rng(3).integers(0, 256, (4, 13, 25, 3)).astype(np.uint8)
    seen = augmented(torch.from_numpy(pixels), np.arange(4), (7, 2), True).numpy()
    turned = 0
    for row in range(4):
        draw = np.random.default_rng([7, 2, row]).random(5)
        down, across = (round((2 * draw[axis] - 1) * (side // 12)) for axis, side in enumerate((13, 25)))
        moved = np.zeros((13, 25, 3))
        for y in range(13):
            for x in range(25):
                column = 24 - x if draw[2] < 0.5 else x
                moved[y, x] = pixels[row, min(max(y + down, 0), 12), min(max(column + across, 0), 24)]
        bright, contrast = (1 + 0.2 * (2 * draw[place] - 1) for place in (3, 4))
        lit = (moved - moved.mean()) * contrast + moved.mean() * bright
        assert np.abs(np.clip(lit, 0, 255) - seen[row]).max() < 0.51
        turned += draw[2] < 0.5
    assert 0 < turned < 4


def test_pictures_are_moved_by_a_twelfth_of_their_side_at_most():
    pixels = torch.zeros(200, 24, 24, 3, dtype=torch.uint8)
    pixels[:, 12, 12] = 255
    seen = augmented(pixels, np.arange(200), (0, 0), False)[..., 0].float()
    places = seen.flatten(1).argmax(dim=1)
    assert (
        {int(place) // 24 for place in places} == set(range(10, 15)) == {int(place) % 24 for place in places}
    )


def test_half_of_the_pictures_are_mirrored_where_that_is_allowed():
    pixels = torch.zeros(200, 24, 24, 3, dtype=torch.uint8)
    pixels[:, :, :6] = 200
    never, some = (augmented(pixels, np.arange(200), (0, 0), flips) for flips in (False, True))
    assert (never[:, 0, 0, 0] > never[:, 0, -1, 0]).all()
    assert 70 < (some[:, 0, 0, 0] < some[:, 0, -1, 0]).sum() < 130

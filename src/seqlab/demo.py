"""`seqlab demo`: a first model on built-in data, in a few minutes and without a download."""

from __future__ import annotations

import csv
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seqlab.data.builtin import (
    sound_rows,
    write_letter_files,
    write_sound_tables,
    write_stress_tables,
    write_words,
)
from seqlab.data.letters import SILENT
from seqlab.data.seasons import AHEAD, days_of_sales, write_sales
from seqlab.data.shapes import scenes, write_scenes
from seqlab.data.store import cache_folder
from seqlab.data.tones import RATE, melody, sung_words, write_packed
from seqlab.errors import UserError, did_you_mean, one_of
from seqlab.files import write_text
from seqlab.report.evaluate import duration
from seqlab.report.explanation import Explanation
from seqlab.report.maps import html_pages
from seqlab.run import Run
from seqlab.session import summary, train_anew
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

MINUTES = 3.0
LETTER_MINUTES = 1.0
"""The same for single letters, which are soon learnt."""
PICTURE_MINUTES = 1.5
"""And for pictures of two shapes."""
SOUND_MINUTES = 1.0
"""And for tones."""
SHOWN = 10
"""Worked examples to print."""
KNOWN = """
about above adventure again alone animal another apartment around balloon banana beautiful because begin
behind between bicycle butter camera candle carpet chocolate city computer country danger december decision
delicious dinner direction elephant energy family favorite february flower forget forgotten garden guitar
history holiday hotel hundred idea important january kitchen language library machine magazine medicine
memory metal million minute monday morning mountain music national october office orange paper people
perfect photograph piano picture planet potato present president question rabbit receive remember river
robot saturday science september seven silver sister station student summer sunday surprise table telephone
thousand tomato tomorrow travel tuesday umbrella university vacation village water wednesday weekend winter
wonderful yellow yesterday
"""
"""Words that a reader can judge; those of them that are in the test part are shown."""


def run_demo(task: str, started: float) -> None:
    """Train on built-in data and show what was learnt."""
    demos: dict[str, Callable[[float], None]] = {
        "translate": pronounce,
        "generate": invent,
        "classify": stress,
        "tag": letters,
        "caption": describe,
        "sound": transcribe,
        "forecast": sell,
    }
    task = task or next(iter(demos))
    if task not in demos:
        raise UserError(
            what=f'There is no demo "{task}".{did_you_mean(task, demos)}',
            why=f"The built-in data serves {one_of(demos)}.",
            fix="Write: seqlab demo",
        )
    demos[task](started)


def pronounce(started: float) -> None:
    """Spelling → sounds."""
    print(
        "English words and their sounds: from the spelling, say how a word is pronounced "
        "(photograph → F OW T AH G R AE F)."
    )
    train, valid, test = write_sound_tables(_builtin() / "sounds")
    run = _trained(
        "translate",
        "lstm-attention",
        "runs/demo-sounds",
        started,
        {
            "data.train": (str(train),),
            "data.valid": (str(valid),),
            "data.test": (str(test),),
            "task.metric": "errors",
            "data.tokens.kind": "characters",
            "data.target_tokens": {"kind": "words", "split": "spaces", "lower": False},
        },
    )
    print("Of tokens, here sounds, the token error rate counts those that are wrong, missing or too many.")
    listed: dict[str, list[str]] = {}
    for word, sounds in sound_rows():
        listed.setdefault(word, []).append(sounds)
    some = _familiar(_first_cells(test))
    print("\nWords that were not in the training data:")
    for word, answer in zip(some, run.predict(some), strict=True):
        mark = "right" if answer.text in listed[word] else f"wrong, it is {listed[word][0]}"
        print(f"  {word:<16} {answer.text:<32} {mark}")
    word = "photograph"
    explanation = run.explain(word)
    place = explanation.save(run.folder / "alignment.html")
    print(f"\nWhich letter it looked at for each sound of “{word}” (drawn in {place}):")
    print(f"  {aligned_sounds(explanation)}")
    _end(run, started, f"predict {run.folder} seqlab", f"explain {run.folder} photography --out map.html")
    if sys.stdin.isatty() and sys.stdout.isatty():
        converse(run)


def aligned_sounds(explanation: Explanation) -> str:
    """Each sound with the letter that had most of its attention: F←p OW←o ..."""
    best = explanation.maps[0]
    weights = best.weights if best.weights.ndim == 2 else best.weights.mean(axis=0)  # U T
    letters = [best.pieces[place] for place in weights.argmax(axis=-1)]
    pairs = zip(best.written, letters, strict=True)
    return "  ".join(f"{sound.strip()}←{letter}" for sound, letter in pairs if not sound.startswith("["))


def converse(run: Run) -> None:
    """Pronounce what is typed, until an empty line."""
    print("\nType a word to hear it spelt in sounds; an empty line ends.")
    while True:
        try:
            words = input("> ").lower().split()
        except (EOFError, KeyboardInterrupt):
            break
        if not words:
            break
        print("  " + "   ".join(answer.text for answer in run.predict(words)))


def invent(started: float) -> None:
    """Words that could be English."""
    print("English words, letter by letter: learn what they are made of, and invent new ones.")
    words = write_words(_builtin())
    run = _trained(
        "generate", "lstm", "runs/demo-words", started, {"data.train": (str(words),), "task.flow": "rows"}
    )
    known = set(words.read_text(encoding="utf-8").split())
    drawn = [answer.text for answer in run.predict([""] * 60)]
    new = [word for word in dict.fromkeys(drawn) if word not in known]
    strange = sum(word not in known for word in drawn)
    print(f"\nOf {len(drawn)} words that it wrote, {strange} are not in the dictionary:")
    for start in range(0, min(len(new), 30), 6):
        print("  " + "".join(f"{word:<16}" for word in new[start : start + 6]))
    print(
        "Words that begin with “micro”:  " + ", ".join(answer.text for answer in run.predict(["micro"] * 5))
    )
    _end(
        run,
        started,
        f'predict {run.folder} "un" decode.temperature=1.0',
        f"explain {run.folder} unbelievable --out map.html",
    )


def stress(started: float) -> None:
    """Spelling → stress pattern."""
    print(
        "English words and their stress: from the spelling, say which syllables are stressed "
        "(1 main, 2 second, 0 none)."
    )
    train, valid, test = write_stress_tables(_builtin())
    run = _trained(
        "classify",
        "bilstm",
        "runs/demo-stress",
        started,
        {
            "data.train": (str(train),),
            "data.valid": (str(valid),),
            "data.test": (str(test),),
            "data.tokens.kind": "characters",
        },
    )
    print("\nWords that were not in the training data:")
    with test.open(encoding="utf-8", newline="") as file:
        some = [row for row in csv.DictReader(file) if row["text"] in KNOWN.split()][:SHOWN]
    for row, answer in zip(some, run.predict([row["text"] for row in some]), strict=True):
        mark = "right" if answer.label == row["label"] else f"wrong, it is {row['label']}"
        print(f"  {row['text']:<16} {answer.label:<8} {mark}")
    _end(run, started, f"predict {run.folder} seqlab", f"explain {run.folder} photography --out map.html")


def letters(started: float) -> None:
    """Letters → the sound that each of them writes."""
    print(
        "English words, letter by letter: say which sound each letter writes "
        f"(photo → F {SILENT} OW T OW, where {SILENT} is silent)."
    )
    train, valid, test = write_letter_files(_builtin() / "letters")
    run = _trained(
        "tag",
        "bilstm-crf",
        "runs/demo-letters",
        started,
        {
            "data.train": (str(train),),
            "data.valid": (str(valid),),
            "data.test": (str(test),),
            "model.input": {"kind": "tokens", "width": 64},
            "model.places.dropout": 0.2,
            "training.minutes": LETTER_MINUTES,
        },
    )
    known = spelt_words(test)
    some = _familiar(list(known))
    print("\nWords that were not in the training data:")
    for word, answer in zip(some, run.predict([list(word) for word in some]), strict=True):
        pairs = zip(word, answer.tags, known[word], strict=True)
        shown = "  ".join(
            f"{letter}→{tag}" + (f" (not {right})" if tag != right else "") for letter, tag, right in pairs
        )
        print(f"  {shown}")
    word = "photograph"
    place = run.explain(list(word)).save(run.folder / "letters.html")
    print(f"\nWhich letters decided what each letter of “{word}” writes is drawn in {place}")
    spelt = " ".join("seqlab")
    _end(run, started, f'predict {run.folder} "{spelt}"', f'explain {run.folder} "{spelt}" --out map.html')


def spelt_words(file: Path) -> dict[str, list[str]]:
    """The words of a file with a letter a line, and what each of their letters writes."""
    found = {}
    for block in file.read_text(encoding="utf-8").split("\n\n"):
        letters, tags = zip(*(line.split("\t") for line in block.splitlines()), strict=True)
        found["".join(letters)] = list(tags)
    return found


def describe(started: float) -> None:
    """Pictures of two shapes → what they show."""
    print(
        "Pictures of two coloured shapes, made here: learn to say what is where "
        "(a red circle left of a blue square)."
    )
    folder = _builtin() / "shapes"
    data = {
        f"data.{split}": (str(write_scenes(folder, split, scenes(count, seed))),)
        for seed, (split, count) in enumerate({"train": 6000, "valid": 200, "test": 500}.items())
    }
    settings = data | {"task.smoothing": 0.0, "training.minutes": PICTURE_MINUTES}
    run = _trained("caption", "cnn-lstm-attention", "runs/demo-shapes", started, settings)
    some = scenes(SHOWN, seed=9)
    answers = run.predict([scene.pixels for scene in some])
    print("\nPictures that it has not seen:")
    for scene, answer in zip(some, answers, strict=True):
        mark = "right" if answer.text == scene.caption else f"wrong, it is {scene.caption}"
        print(f"  {answer.text:<44} {mark}")
    place = run.folder / "looked-at.html"
    shown = [run.explain(scene.pixels) for scene in some]
    write_text(place, html_pages("Where it looked, word by word", shown))
    print(f"\nWhere it looked for each word is drawn over these pictures: open {place} in a browser.")
    _end(run, started, f"evaluate {run.folder} {data['data.test'][0]}")


def sell(started: float) -> None:
    """Sales so far and the holidays that come → the sales that come."""
    print(
        "A shop's sales, day by day, with a trend, a week, a year and holidays: from four weeks, and the "
        "holidays that come, say what it sells in the next two."
    )
    sales, coming = write_sales(_builtin() / "sales")
    run = _trained(
        "forecast",
        "linear",
        "runs/demo-sales",
        started,
        {
            "data.train": (str(sales),),
            "data.split": ("0.7", "0.15", "0.15"),
            "task.window": 28,
            "task.horizon": AHEAD,
            "task.targets": ("sales",),
            "task.future": ("holiday",),
            "training.minutes": 1.0,
        },
    )
    print("\nThe two weeks after the end of the data, with intervals that are to hold 9 of 10 days:")
    came = {day: (number, holiday) for day, number, holiday in days_of_sales()[-AHEAD:]}
    for _, answer in run.answer_rows(run.rows(str(coming), labelled=False)):
        step = answer.columns()
        number, holiday = came[step["date"]]
        held = "" if step["sales_low"] <= number <= step["sales_high"] else ", not in it"
        print(
            f"  {step['date']}  {step['sales']:5.1f}  ({step['sales_low']:.1f} to {step['sales_high']:.1f})"
            f"  it was {number:.1f}{held}{'  (a holiday)' if holiday else ''}"
        )
    place = run.folder / "forecast.html"
    run.draw(run.rows(str(coming), labelled=False), place)
    print(f"\nIt is drawn in {place}")
    _end(run, started, f"predict {run.folder} --input {coming} --output forecast.csv")


def transcribe(started: float) -> None:
    """Tones → letters."""
    print("A language that is sung, made here: each letter is a pitch. Learn to write down what is heard.")
    folder, data = _builtin() / "tones", {}
    for seed, (split, count) in enumerate({"train": 1200, "valid": 120, "test": 300}.items()):
        texts = sung_words(count, 6, seed)
        data[f"data.{split}"] = (str(write_packed(folder / f"{split}.npz", texts, seed, text=texts)),)
    settings = data | {"training.minutes": SOUND_MINUTES}
    run = _trained("translate", "lstm-attention", "runs/demo-tones", started, settings)
    draw = random.Random(9)
    some = {text: melody(text, draw) for text in sung_words(SHOWN, 6, seed=9)}
    answers = run.predict([(samples, RATE) for samples in some.values()])
    print("\nMelodies that it has not heard:")
    for text, answer in zip(some, answers, strict=True):
        print(f"  {answer.text:<8} {'right' if answer.text == text else f'wrong, it is {text}'}")
    place = run.folder / "listened-to.html"
    shown = [run.explain((samples, RATE)) for samples in some.values()]
    write_text(place, html_pages("Where it listened, letter by letter", shown))
    print(f"\nWhere it listened for each letter is drawn under the spectrograms: open {place} in a browser.")
    _end(run, started, f"evaluate {run.folder} {data['data.test'][0]}")


def _builtin() -> Path:
    return cache_folder().parent / "builtin"


def _trained(task: str, preset: str, folder: str, started: float, overrides: dict[str, Any]) -> Run:
    """The run of a demo; its scores are printed."""
    wishes = TrainRequest(
        task=task, preset=preset, overrides={"training.minutes": MINUTES} | overrides, where="demo"
    )
    run = train_anew(wishes, _free(Path(folder)), Progress(), started)
    print(summary(run))
    return run


def _first_cells(table: Path) -> Sequence[str]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row[0] for row in csv.reader(file)))[1:]  # without the header


def _familiar(words: Sequence[str]) -> list[str]:
    """Some of the words: those that a reader surely knows first, then others, evenly spread."""
    known = [word for word in words if word in KNOWN.split()]
    return list(dict.fromkeys([*known, *words[:: max(1, len(words) // SHOWN)]]))[:SHOWN]


def _end(run: Run, started: float, *commands: str) -> None:
    print(f"\nDone in {duration(time.monotonic() - started)}. The report: {run.folder / 'report.html'}")
    seqlab = "seqlab" if shutil.which("seqlab") else sys.argv[0]
    print(
        "\n".join(
            f"{'Next:' if place == 0 else '     '} {seqlab} {command}"
            for place, command in enumerate(commands)
        )
    )


def _free(folder: Path) -> Path:
    number, free = 2, folder
    while free.exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free

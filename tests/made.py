"""What tests of whole runs are made of: a small language of opinions, tables, and settings of a small
model."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from seqlab.answers.answer import Answer, Known
from seqlab.data.read import DataConfig
from seqlab.decode import DecodeConfig
from seqlab.fields.field import DataFacts
from seqlab.model import ModelConfig
from seqlab.tasks.task import TaskConfig

SMALL = [
    "model.input.width=16", "training.baseline=false", "training.batch_tokens=512", "training.rate=0.01",
]  # fmt: skip
"""Settings that make a model small enough for a test."""

GOOD = ["great", "lovely", "superb", "moving", "funny", "bright"]
BAD = ["dull", "awful", "weak", "boring", "poor", "clumsy"]
PLAIN = ["the", "film", "story", "was", "and", "a", "music", "actor", "scene", "it", "with", "of"]


NAMES = ["Ann", "Ben", "Cleo", "Dora"]


def opinions(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts of plain words with one or two opinions among them, and the label that these decide."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(["good", "bad"])
        words = draw.choices(PLAIN, k=draw.randint(3, 14))
        for word in draw.sample(GOOD if label == "good" else BAD, draw.randint(1, 2)):
            words.insert(draw.randrange(len(words) + 1), word)
        rows.append((" ".join(words) + ("." if draw.random() < 0.5 else ". it was a film."), label))
    return rows


def write_table(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("text", "label")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def answer_of(
    task: TaskConfig,
    *,
    data: DataConfig | None = None,
    model: ModelConfig | None = None,
    decode: DecodeConfig | None = None,
    **learnt: object,
) -> Answer:
    """The answer of a task whose fields have learnt these facts."""
    data, model, decode = data or DataConfig(), model or ModelConfig(), decode or DecodeConfig()
    fields = task.fields(data, learnt)
    for field in fields:
        field.take(learnt)
    facts = DataFacts(task.kind, symbols={"written": 100}, learnt=learnt)
    return task.answer(Known(data, model, decode, facts, tuple(fields)))


def story(count: int, seed: int = 0) -> str:
    """Documents of a few sentences, of one language that is made up of little."""
    draw = random.Random(seed)
    documents = []
    for _ in range(count):
        sentences = []
        for _ in range(draw.randint(2, 4)):
            one, two = draw.sample(NAMES, 2)
            sentences.append(
                f"{one} {draw.choice(['wakes', 'eats', 'sleeps'])} this"
                f" {draw.choice(['morning', 'evening'])}."
            )
            sentences.append(f"Then {two} calls {one}.")
        documents.append(" ".join(sentences))
    return "\n\n".join(documents) + "\n"


def write_pictures(folder: Path, count: int) -> list[Path]:
    """Files of small pictures, some of other sizes and modes."""
    from PIL import Image

    from seqlab.data.shapes import scenes

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, scene in enumerate(scenes(count, 7)):
        image = Image.fromarray(scene.pixels).resize((16, 12 if number % 5 == 1 else 16))
        paths.append(folder / f"{number}.png")
        (image.convert("RGBA") if number % 7 == 2 else image).save(paths[-1])
    return paths

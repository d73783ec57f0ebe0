"""A tag for each word: a part of speech, or the part of a span that the word is."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.conll import LINES
from seqlab.data.files import Place
from seqlab.data.read import Role
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.survey import SHOWN, Look, Problem, Split, Splits, first_of
from seqlab.data.words import TOKENS, RowLines, line_of, listed, values_of, words_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Field
from seqlab.parts import Grammar
from seqlab.spans import OUTSIDE, TAG, Scheme, kind_of

USUAL = (
    "tags",
    "tag",
    "labels",
    "label",
    "ner_tags",
    "ner",
    "entities",
    "pos_tags",
    "pos",
    "upos",
    "xpos",
    "target",
)
SHOWN_TAGS, BAR = 30, 30


@dataclass(frozen=True)
class TagFacts:
    tags: tuple[str, ...] = ()
    """In the order of the model's scores."""
    tag_counts: tuple[int, ...] = ()
    """Training tokens of each tag."""
    spans: bool = False
    """Whether they write spans: BIO, BIOES, BILOU."""


class TagsLook(Look):
    """The tags of each row, as numbers in the order in which tags turn up in all data sets."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers, self._tags, self._sizes = numbers, array("I"), array("I")
        self.lines = RowLines()

    def see(self, cells: Cells, mark: int) -> None:
        tags = values_of(cells["tags"])
        self.lines.see(cells)
        self._sizes.append(len(tags))
        self._tags.extend([self.numbers.setdefault(tag, len(self.numbers)) for tag in tags])

    @property
    def tags(self) -> NDArray[np.int64]:
        return np.array(self._tags, np.int64)

    @property
    def offsets(self) -> NDArray[np.int64]:
        return offsets_of(np.array(self._sizes, np.int64))


class TagsField(Field):
    """One of several tags for each word."""

    name = "tags"
    Facts = TagFacts
    facts: TagFacts

    def __init__(self, mend: bool = False) -> None:
        """mend: tags that begin no span as they should are read as what they mean."""
        self.facts = TagFacts()
        self.mend = mend
        self._numbers: dict[str, int] = {}

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [Role("tags", USUAL, many=True, check=_check)]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> TagsLook:
        return TagsLook(self._numbers)

    def strata(self, split: Split) -> NDArray[np.int64]:
        """The rarest tag of each row: none is held out altogether."""
        look: TagsLook = split.looks[self.name]
        if not split.rows:
            return np.zeros(0, np.int64)
        order = np.argsort(np.bincount(look.tags, minlength=len(self._numbers)), kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        rarest: NDArray[np.int64] = order[np.minimum.reduceat(rank[look.tags], look.offsets[:-1])]
        return rarest

    def _known(self, splits: Splits) -> list[str]:
        """The tags of the training rows: O, then by type and letter."""
        seen = set(first_of(splits).looks[self.name].tags.tolist())
        return sorted((tag for tag, number in self._numbers.items() if number in seen), key=_order)

    def problems(self, splits: Splits) -> Iterator[Problem]:
        known = self._known(splits)
        if len(known) == 1:
            yield Problem(
                "error",
                f'every token has the same tag, "{known[0]}".',
                first_of(splits).place(0),
                "Two tags are needed at least. If another column holds them: data.columns.tags=...",
            )
        if len(known) > 1_000:
            yield Problem(
                "error",
                f"there are {len(known):,} different tags.",
                first_of(splits).place(0),
                "If they are numbers: task.target=number. If another column holds the tags:"
                " data.columns.tags=...",
            )
        names = list(self._numbers)
        for split in splits.values():
            yield from self._unseen(split, names, set(known))
        if kind_of(known) and not self.mend:
            for split in splits.values():
                yield from self._illegal(split, names)

    def _unseen(self, split: Split, names: Sequence[str], known: set[str]) -> Iterator[Problem]:
        look: TagsLook = split.looks[self.name]
        for number, tag in enumerate(names):
            if tag not in known and len(at := np.flatnonzero(look.tags == number)):
                yield Problem(
                    "error",
                    f'the tag "{tag}" does not occur in the training data ({split.name}: {len(at):,} tokens'
                    ").",
                    self._place(split, int(at[0])),
                    "Add training rows with it, mend its spelling, or remove these rows.",
                )

    def _illegal(self, split: Split, names: Sequence[str]) -> Iterator[Problem]:
        """Rows whose tags are no spans."""
        if kind_of(names) is None:
            return  # a tag that is unknown is told already
        scheme, look = Scheme(tuple(names)), split.looks[self.name]
        tags, offsets = look.tags, look.offsets
        faults = ((row, scheme.fault(some)) for row, some in enumerate(np.split(tags, offsets[1:-1])))
        found = [(row, fault) for row, fault in faults if fault]
        for row, fault in found[:SHOWN]:
            place = self._place(split, int(offsets[row]) + fault.place)
            yield Problem("error", fault.what, place, MEND)
        if len(found) > SHOWN:
            more = f"{split.name}: {len(found) - SHOWN:,} more rows have tags that are no spans."
            yield Problem("error", more, None, MEND)

    def _place(self, split: Split, token: int) -> Place:
        """Where a token stands."""
        look: TagsLook = split.looks[self.name]
        row = int(np.searchsorted(look.offsets, token, side="right")) - 1
        return look.lines.place(split.place(row), row, token - int(look.offsets[row]))

    def lines(self, split: Split) -> list[str]:
        look: TagsLook = split.looks[self.name]
        counts = np.bincount(look.tags, minlength=len(self._numbers))
        named = {tag: int(counts[number]) for tag, number in self._numbers.items() if counts[number]}
        kind = kind_of(list(named))
        lines = [f"  {len(named)} tags" + (f", which write spans ({kind})" if kind else "")]
        if kind:
            scheme = Scheme(tuple(self._numbers)) if kind_of(list(self._numbers)) else None
            named = _spans(scheme, look) if scheme else named
        width, most = min(30, max(map(len, named), default=1)), max(named.values(), default=1)
        total = sum(named.values())
        for tag, count in sorted(named.items(), key=lambda one: (-one[1], one[0]))[:SHOWN_TAGS]:
            bar = "█" * max(1, round(BAR * count / most))
            lines.append(f"    {tag[:30]:<{width}}  {count:>9,}  {100 * count / total:5.1f} %  {bar}")
        more = len(named) - SHOWN_TAGS
        return [*lines, f"    ... and {more} more"] if more > 0 else lines

    # Learning and numbers -----------------------------------------------------------------------------------

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        known = self._known(splits)
        look: TagsLook = first_of(splits).looks[self.name]
        tokens = np.repeat(chosen, np.diff(look.offsets))
        counts = np.bincount(look.tags[tokens], minlength=len(self._numbers))
        if self.mend and kind_of(known):
            known = sorted(Scheme(tuple(known)).whole.tags, key=_order)
        numbers = [int(counts[self._numbers[tag]]) if tag in self._numbers else 0 for tag in known]
        self.facts = TagFacts(tuple(known), tuple(numbers), kind_of(known) is not None)

    @property
    def scheme(self) -> Scheme | None:
        """How the tags write spans; None where they don't."""
        return Scheme(self.facts.tags) if self.facts.spans else None

    @property
    def grammar(self) -> Grammar | None:
        """Which tags may follow one another, where not all may."""
        if (scheme := self.scheme) is None:
            return None
        follows = tuple(tuple(row) for row in scheme.follows.tolist())
        return Grammar(tuple((~scheme.continues).tolist()), tuple((~scheme.opens).tolist()), follows)

    @property
    def outputs(self) -> int:
        return len(self.facts.tags)

    def settings(self) -> Mapping[str, Any]:
        return {"tags": self.facts.tags, "mend": self.mend}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        known = {tag: number for number, tag in enumerate(self.facts.tags)}
        scheme = self.scheme
        made = []
        for row, cells in enumerate(rows):
            tags = values_of(cells["tags"])
            for number, tag in enumerate(tags):
                if tag not in known:
                    raise self._unknown(tag, _where(places, row, cells, number))
            numbers = [known[tag] for tag in tags]
            if scheme and (fault := scheme.fault(numbers)):
                if not self.mend:
                    raise UserError(
                        what=f"{_where(places, row, cells, fault.place)}: {fault.what}",
                        why="The scores of spans would depend on how such tags are read.",
                        fix=MEND,
                    )
                numbers = [known[tag] for tag in scheme.written(scheme.spans(numbers), len(numbers))]
            made.append(numbers)
        return Encoded(values={"tags": Ragged.of(made, np.int64)})

    def _unknown(self, tag: str, place: str) -> UserError:
        tags = self.facts.tags
        return UserError(
            what=f'{place}: the tag "{tag}" does not occur in the training data.',
            why=f"The model knows {len(tags)} tags: {', '.join(tags[:8])}{', ...' if len(tags) > 8 else ''}.",
            fix="Correct the tag, remove the row, or train on data that has it.",
        )


MEND = (
    "Correct the tags; or, if an I- that follows nothing is meant to begin a span (as in IOB1), read it so:"
    " task.mend=true"
)


def _order(tag: str) -> tuple[Any, ...]:
    match = TAG.fullmatch(tag)
    return (1, match[2], "BIESLU".index(match[1])) if match else (tag != OUTSIDE, tag, 0)


def _spans(scheme: Scheme, look: TagsLook) -> dict[str, int]:
    """Spans of each type."""
    starts, _ = scheme.bounds(look.tags, look.offsets)
    counts = np.bincount(scheme.numbers[look.tags[starts]], minlength=len(scheme.types))
    return {type: int(count) for type, count in zip(scheme.types, counts, strict=True) if count}


def _where(places: Sequence[Place] | None, row: int, cells: Cells, number: int) -> str:
    return str(line_of(places[row], cells.get(LINES), number)) if places else "A row"


def _check(cells: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with the tags of a row beside its words, and how to mend it."""
    cell = cells["tags"]
    if listed(cell) is None and cell.startswith("["):
        return f"the tags are not a list of texts: {cell[:60]}", 'Write ["B-PER", "O", "O", "B-LOC"].'
    tags = values_of(cell)
    if TOKENS in cells and len(words := words_of(cells)) != len(tags):
        what = f"there are {len(words):,} tokens but {len(tags):,} tags in this row."
        return what, "Give every token one tag. Text in a cell is cut at its spaces."
    if any(not tag.strip() for tag in tags):
        number = next(number for number, tag in enumerate(tags, 1) if not tag.strip())
        return f"tag {number} is empty.", "Give every token a tag: O where nothing is meant."
    return None

"""Settings: every fault at once, each with its dotted key; YAML, objects and overrides say the same."""

from dataclasses import dataclass
from typing import Literal

import pytest

from seqlab import config
from seqlab.config import Positive, Probability, RawText, Variant
from seqlab.errors import UserError


class Animal(Variant):
    """A family for these tests."""


@dataclass(frozen=True, kw_only=True)
class Dog(Animal, kind="dog"):
    name: str = "rex"
    """What it is called."""
    age: Positive = 3
    weight: Probability = 0.1


@dataclass(frozen=True, kw_only=True)
class Cat(Animal, kind="cat"):
    name: str = "tom"
    """What it is called."""
    mood: Literal["calm", "cross"] = "calm"


@dataclass(frozen=True, kw_only=True)
class Zoo:
    first: Animal = Dog()
    second: Animal | None = None
    open: bool = True
    rate: float = 0.1
    """How fast."""
    most: Positive | None = None
    files: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.open and self.most:
            raise ValueError("a closed zoo has no most")


def built(text):
    return config.build(Zoo, config.read_yaml(text, "zoo.yaml"), "zoo.yaml")


def faults(text):
    with pytest.raises(UserError) as caught:
        built(text)
    return str(caught.value)


def test_dump_then_build_is_identity():
    zoo = Zoo(first=Cat(mood="cross"), second=Dog(age=7), rate=1e-4, files=("a.csv", "b.csv"))
    assert built(config.write_yaml(config.dump(zoo))) == zoo


def test_a_misspelt_key_gets_a_suggestion():
    assert 'first.agee: there is no such key of kind "dog". Did you mean "age"?' in faults(
        "first: {kind: dog, agee: 3}"
    )


def test_a_misspelt_kind_gets_a_suggestion():
    assert 'Did you mean "dog"?' in faults("first: {kind: dogg}")


def test_all_faults_come_at_once():
    told = faults("first: {kind: dog, age: -1, weight: 2}\nrate: fast\nfrist: 1\n")
    for key in ("first.age", "first.weight", "rate", "frist"):
        assert f"- {key}: " in told


def test_faults_come_in_the_order_of_the_settings_however_they_were_written():
    told = faults("rate: fast\nfirst: {kind: dog, weight: 2, age: -1}\n")
    assert told.index("first.age") < told.index("first.weight") < told.index("rate")


def test_an_override_changes_the_group_that_it_names_alone():
    """A preset may put one tree at two places: encoder and decoder alike."""
    shared = {"kind": "dog", "age": 3}
    tree = config.override({"first": shared, "second": shared}, {"first.age": 5}, Zoo)
    assert tree == {"first": {"kind": "dog", "age": 5}, "second": {"kind": "dog", "age": 3}}
    assert shared["age"] == 3


def test_contradictions_are_told_when_each_key_is_right_by_itself():
    assert "a closed zoo has no most" in faults("open: no\nmost: 3\n")
    told = faults("open: no\nmost: 3\nrat: 1\n")
    assert "rat: there is no such key" in told and "closed zoo" not in told


def test_numbers_without_a_dot_are_numbers():
    """YAML 1.1 reads 1e-3 as text."""
    assert built("rate: 1e-3").rate == 0.001


def test_a_yaml_no_is_not_a_name():
    assert "Quote the word" in faults("first: {kind: dog, name: no}")


def test_true_is_not_a_number():
    assert "true is not a number" in faults("rate: yes")


def test_two_keys_that_contradict_each_other_are_told():
    assert "a closed zoo has no most" in faults("open: false\nmost: 3")


def test_command_line_text_takes_the_type_of_its_key():
    words = ["first.name=no", "rate=1e-3", "most=5", "files=a.csv,b.csv", "open=false", "most="]
    zoo = config.build(Zoo, config.override({}, config.parse_overrides(words), Zoo), "words")
    assert zoo == Zoo(first=Dog(name="no"), rate=0.001, files=("a.csv", "b.csv"), open=False, most=None)


def test_a_new_kind_keeps_the_keys_it_shares():
    tree = config.dump(Zoo(first=Dog(name="bo", age=9)))
    changed = config.override(tree, {"first.kind": RawText("cat"), "first.mood": "cross"}, Zoo)
    assert config.build(Zoo, changed, "words").first == Cat(name="bo", mood="cross")


def test_a_word_without_equals_is_refused():
    with pytest.raises(UserError, match="is not a setting"):
        config.parse_overrides(["training.steps"])


def test_broken_yaml_is_told_with_its_line():
    with pytest.raises(UserError, match=r"zoo.yaml:2: this is not valid YAML"):
        built("first: 1\n  second: 2\n")


def test_the_commented_file_reads_back_and_carries_the_notes():
    text = config.commented(Zoo(second=Cat()))
    assert built(text) == Zoo(second=Cat())
    assert "# What it is called." in text and "one of: dog, cat" in text

"""What one tree has besides: a fork that calls CUDA otherwise brings its own words, macros and rules in a file.

The global files stay as they are; ``census --also FILE`` lays these on top::

    schema = 1
    words = ["acme", "Acme", "ACME"]      # as CUDA's in [names], in file names, build files and bindings
    [[macro]]
    family = "build"
    names = ["USE_ACME"]
    [[keep]]                              # also [[rule]], [[name]], [[stays]]: as in rules.toml and taxonomy.toml
    name = "acme-docs"
    match = ["aten/src/ATen/acme.md"]
    reason = "documentation"
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import toml
from decouple.census.taxonomy import MacroFamily, NameRule, StayRule, Taxonomy, any_of
from decouple.inventory.rules import Keep, Rule, RuleFile

_UNSET = ("build", "compiler")
"""Families of macros that stage 1 leaves undefined: those of a build with the device, and of the device's compiler."""


class Also(Struct, frozen=True):
    """The keys of the file; each adds to what the global files say."""

    words: tuple[str, ...] = ()
    macro: tuple[MacroFamily, ...] = ()
    name: tuple[NameRule, ...] = ()
    stays: tuple[StayRule, ...] = ()
    rule: tuple[Rule, ...] = ()
    keep: tuple[Keep, ...] = ()

    def rules(self, rules: RuleFile) -> RuleFile:
        """The relocation's rules with those of this tree."""
        words = (*rules.scope.words, *sorted({word.lower() for word in self.words} - set(rules.scope.words)))
        unset = {name for one in self.macro if one.family in _UNSET for name in one.names if "*" not in name}
        return replace(
            rules,
            rules=(*self.rule, *rules.rules),
            keeps=(*self.keep, *rules.keeps),
            scope=replace(rules.scope, words=words),
            stage1=replace(rules.stage1, undefined=rules.stage1.undefined | unset),
        )

    def taxonomy(self, taxonomy: Taxonomy) -> Taxonomy:
        """The taxonomy with the words of this tree; its own rules are asked first."""
        macros = tuple((one.family, one.names) for one in self.macro)
        taxonomy = replace(
            taxonomy,
            macros=(*macros, *taxonomy.macros),
            names=(*self.name, *taxonomy.names),
            stays=(*self.stays, *taxonomy.stays),
        )
        asked = {name.strip("*") for one in self.macro for name in one.names}
        if not self.words and not asked:
            return taxonomy
        mine = any_of({*self.words, *asked}).pattern
        in_names = any_of(set(self.words)).pattern if self.words else r"(?!)"
        capitals = [word for word in {*self.words, *asked} if word == word.upper()]
        in_macros = any_of(set(capitals)).pattern if capitals else r"(?!)"

        def either(pattern: re.Pattern[str], more: str) -> re.Pattern[str]:
            return re.compile(f"{pattern.pattern}|(?:{more})")

        return replace(
            taxonomy,
            prefilter=(*taxonomy.prefilter, *(word.lower().encode() for word in sorted({*self.words, *asked}))),
            words=either(taxonomy.words, mine),
            macro_words=either(taxonomy.macro_words, in_macros),
            name_words=either(taxonomy.name_words, in_names),
            bindings=either(taxonomy.bindings, rf"^_?\w*(?:{in_names})\w*$"),
            build_variables=either(taxonomy.build_variables, mine),
        )


def load(path: Path) -> Also:
    """Read the file. Raises DecoupleError naming the key that is wrong; OSError."""
    return toml.read(path, Also, mend="docs/census.md lists its keys")

"""Additions to the census for one tree: its own words, macros and rules.

A fork that calls CUDA otherwise brings them in a file.

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
from decouple.base.errors import DecoupleError
from decouple.census.taxonomy import MacroFamily, NameRule, StayRule, Taxonomy, Word, complete_prefilter, join_words
from decouple.inventory.rules import Keep, Rule, RuleFile, load_rules
from decouple.syntax.globs import find_fixed_text

_UNSET = ("build", "compiler")
"""Families of macros that stage 1 leaves undefined: those of a build with the device, and of the device's compiler."""


class TaxonomyAdditions(Struct, frozen=True):
    """The keys of the file of ``--also``; each adds to the global files."""

    words: tuple[Word, ...] = ()
    macro: tuple[MacroFamily, ...] = ()
    name: tuple[NameRule, ...] = ()
    stays: tuple[StayRule, ...] = ()
    rule: tuple[Rule, ...] = ()
    keep: tuple[Keep, ...] = ()

    def extend_rules(self, rules: RuleFile) -> RuleFile:
        """Return the relocation's rules with those of this tree."""
        words = (*rules.scope.words, *sorted({word.lower() for word in self.words} - set(rules.scope.words)))
        unset = {name for family in self.macro if family.family in _UNSET for name in family.names if "*" not in name}
        return replace(
            rules,
            rules=(*self.rule, *rules.rules),
            keeps=(*self.keep, *rules.keeps),
            scope=replace(rules.scope, words=words),
            stage1=replace(rules.stage1, undefined=rules.stage1.undefined | unset),
        )

    def extend_taxonomy(self, taxonomy: Taxonomy) -> Taxonomy:
        """Return the taxonomy with the words of this tree.

        The tree's own rules are tried first.
        """
        macros = tuple((family.family, family.names) for family in self.macro)
        taxonomy = replace(
            taxonomy,
            macros=(*macros, *taxonomy.macros),
            names=(*self.name, *taxonomy.names),
            stays=(*self.stays, *taxonomy.stays),
        )
        macro_words = {find_fixed_text(name) for family in self.macro for name in family.names} - {""}
        if not self.words and not macro_words:
            return taxonomy
        in_code = join_words({*self.words, *macro_words}).pattern
        in_names = join_words(set(self.words)).pattern if self.words else r"(?!)"
        capitals = [word for word in {*self.words, *macro_words} if word == word.upper()]
        in_macros = join_words(set(capitals)).pattern if capitals else r"(?!)"

        def join_patterns(pattern: re.Pattern[str], alternative: str) -> re.Pattern[str]:
            return re.compile(f"{pattern.pattern}|(?:{alternative})")

        return replace(
            taxonomy,
            prefilter=complete_prefilter((word.decode() for word in taxonomy.prefilter), {*self.words, *macro_words}),
            words=join_patterns(taxonomy.words, in_code),
            macro_words=join_patterns(taxonomy.macro_words, in_macros),
            name_words=join_patterns(taxonomy.name_words, in_names),
            bindings=join_patterns(taxonomy.bindings, rf"^_?\w*(?:{in_names})\w*$"),
            build_variables=join_patterns(taxonomy.build_variables, in_code),
        )


def load_additions(path: Path) -> TaxonomyAdditions:
    """Read the file. Raises DecoupleError naming the key that is wrong; OSError."""
    more = toml.read_toml(path, TaxonomyAdditions, mend="docs/census.md lists its keys")
    known = load_rules()
    taken = {*(rule.name for rule in known.rules), *(keep.name for keep in known.keeps)}
    for table, names in (("rule", [rule.name for rule in more.rule]), ("keep", [keep.name for keep in more.keep])):
        for number, name in enumerate(names):
            if name in taken:
                raise DecoupleError(
                    f"{path}: $.{table}[{number}].name: {name!r} is the name of another rule",
                    next_step="give it a name of its own; what this file says is tried first",
                )
            taken.add(name)
    return more

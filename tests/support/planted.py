"""A git repository of somebody else's whose configuration, hooks and attributes name programs to run.

Each program leaves a file named after the setting, so that a test sees which of them ran.
"""

from __future__ import annotations

from pathlib import Path

#: Settings by which a repository names a program that git runs at some moment; ``{run}`` is the program.
#: https://git-scm.com/docs/git-config and gitattributes(5)
PROGRAMS = (
    "core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.askPass", "core.pager", "core.editor",
    "core.alternateRefsCommand", "sequence.editor", "credential.helper", "diff.external", "diff.evil.command",
    "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver",
    "gpg.program", "gpg.openpgp.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "gpg.x509.program",
    "gc.recentObjectsHook", "interactive.diffFilter", "trailer.evil.command", "trailer.evil.cmd",
    "uploadpack.packObjectsHook", "pager.log", "pager.status", "alias.ls-files", "alias.rev-parse", "browser.evil.cmd",
    "remote.evil.uploadpack", "remote.evil.receivepack", "submodule.sub.update",
)  # fmt: skip
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-pre-submit", "post-applypatch", "post-checkout",
    "post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit",
    "pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "reference-transaction",
)  # fmt: skip
#: Settings that make git come to the programs.
LEADING = (
    "[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n[log]\n showSignature = true\n[filter \"evil\"]\n required\n"
    "[protocol]\n allow = always\n[protocol \"ext\"]\n allow = always\n[diff \"evil\"]\n cachetextconv = false\n"
    "[submodule]\n recurse = true\n[core]\n splitIndex = false\n[core]\n untrackedCache = true\n"
    "[status]\n submoduleSummary = true\n[push]\n gpgSign = true\n[uploadpack]\n allowFilter = true\n"
)  # fmt: skip
#: Where a promisor remote may lie; `missing objects <https://git-scm.com/docs/partial-clone>`_ are fetched from there.
REMOTES = {
    "ext": "ext::{run} ext",
    "ssh": "ssh://localhost/nothing",
    "file": "file://{folder}",
    "git": "git://localhost:1/nothing",
    "https": "https://localhost:1/nothing",
}


class Planted:
    """What was planted in one repository, and which of it ran."""

    def __init__(self, git_dir: Path, where: Path, remote: str = "") -> None:
        """Plant everything into ``git_dir``; programs and their traces lie in ``where``, a new folder.

        With ``remote`` (one of `REMOTES`) missing objects would be fetched from such a place.
        """
        self._traces = where / "traces"
        self._traces.mkdir(parents=True)
        program = where / "program"
        program.write_text(f'#!/bin/sh\n: > "{self._traces}/$1"\n')
        program.chmod(0o755)
        lines = [LEADING.rstrip("\n")]
        for name in PROGRAMS:
            section, _, key = name.rpartition(".")
            section, _, rest = section.partition(".")
            mark = "!" if section in ("alias", "submodule") else ""
            head = f'[{section} "{rest}"]' if rest else f"[{section}]"
            lines.append(f'{head}\n {key} = "{mark}{program} {name}"')
        if remote:
            url = REMOTES[remote].format(run=program, folder=where)
            lines.append("[core]\n repositoryFormatVersion = 1\n[extensions]\n partialClone = evil\n")
            lines.append(f'[remote "evil"]\n url = "{url}"\n promisor = true\n partialCloneFilter = blob:none')
        (git_dir / "more").write_text("\n".join(lines) + "\n")
        with (git_dir / "config").open("a") as config:
            config.write("[include]\n path = more\n[core]\n hooksPath = hooks\n")
        (git_dir / "hooks").mkdir(exist_ok=True)
        for name in HOOKS:
            hook = git_dir / "hooks" / name
            hook.write_text(f'#!/bin/sh\n: > "{self._traces}/{name}"\n')
            hook.chmod(0o755)
        (git_dir / "info").mkdir(exist_ok=True)
        with (git_dir / "info/attributes").open("a") as attributes:
            attributes.write("* filter=evil diff=evil merge=evil\n")

    @property
    def ran(self) -> list[str]:
        """The settings whose programs ran, until now."""
        return sorted(path.name for path in self._traces.iterdir())


def without_object(git_dir: Path, name: str) -> None:
    """Take one loose object out of a repository, as a partial clone lacks it."""
    (git_dir / "objects" / name[:2] / name[2:]).unlink()

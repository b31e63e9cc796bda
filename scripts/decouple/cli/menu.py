"""List the verbs of ``decouple``: where each is declared, and its ``--help``.

A verb is one row here and ``register`` of its module, which adds its parser. The work is in ``decouple.flows``.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Verb -> its module in ``decouple.cli``, and its line of ``--help``, in that order: from source to patches, to other
#: releases, to wheels, to backends.
VERBS: dict[str, tuple[str, str]] = {
    "fetch": ("fetch", "download, verify and unpack the source of a release"),
    "apply": ("apply", "fetch a release and bring build/RELEASE/src to the whole series and the overlay"),
    "status": ("apply", "how far the applied tree, the series and the patches agree"),
    "push": ("stack", "apply the next patch, N patches, or those up to NAME"),
    "pop": ("stack", "take off the top patch, N patches, or those above NAME"),
    "series": ("standing", "list the patches of the series: all, the applied, the others, or the topmost applied"),
    "new": ("patches", "start an empty patch on top of the applied ones"),
    "add": ("patches", "put new files under version control, so that refresh takes them; --edit opens them"),
    "refresh": ("patches", "write the commits and edits of the tree back to patches/"),
    "fold": ("patches", "merge a diff from standard input or a file into the top patch"),
    "rename": ("patches", "give a patch (the top one) another name"),
    "delete": ("patches", "take a patch (the top one) out of the series"),
    "import": ("patches", "copy patch files into the series behind the top patch"),
    "export": ("patches", "write the applied patches as the tree has them now to a folder"),
    "show": ("patches", "print a patch (the top one)"),
    "diff": ("patches", "print the top patch with the uncommitted edits"),
    "header": ("patches", "print, edit (-e) or replace (-r, from standard input) a patch's header"),
    "branch": ("branch", "make a git branch of the whole series, or (--back) patches of its commits"),
    "lint": ("lint", "every fault of every patch of the named releases, or of all"),
    "check": ("check", "apply a series in memory and print one status per patch, or which patches each needs"),
    "relocate": ("relocate", "which CUDA files move where, and the patch that moves them"),
    "census": ("census", "every coupling to CUDA, before and after the series"),
    "bisect": ("bisect", "which patch of the series breaks a command"),
    "rebase": ("rebase", "carry a series to another upstream release"),
    "upstream": ("upstream", "a patch as commits for upstream; or the series on upstream's main of today (watch)"),
    "forecast": ("forecast", "a patch x release matrix, without a checkout"),
    "record": ("record", "write what is proven of a series without building it to ci/status/"),
    "manifest": ("manifest", "the facts of a release in series/<release>.toml"),
    "build": ("build", "build both wheels of a release into dist/<release>/ (resumes)"),
    "smoke": ("build", "stage 2's runtime part against a stock core: a quick check"),
    "shell": ("build", "a shell in the build environment"),
    "clean": ("build", "delete what building left (not dist/, nor results of test-cuda)"),
    "repack": ("repack", "other wheels out of a wheel, nothing compiled: split, thin, pair, variants, core-half"),
    "verify": ("verify", "ELF audit, imports and parity of the wheels in dist/<release>/; or one wheel's origin"),
    "parity": ("parity", "a torch against the official wheel: settings, operators, API, files, symbols, with reasons"),
    "try": ("tryout", "use a torch as others will: wheels on a bare system, CUDA extensions, what patches promise"),
    "status-table": ("tables", "put the tables of ci/status/*.json into README.md and docs/"),
    "kernels": ("kernels", "the machine code in CUDA libraries, kernel by kernel"),
    "test-cuda": ("test_cuda", "upstream's CUDA test suites, on a GPU or on the simulated device"),
    "stages": ("stages", "what the stages compile, open, need of each other: sources, symbols, units, audit, reuse"),
    "index": ("index", "publish, check and sign wheels in a static package index"),
    "wheels": ("wheels", "fetch prebuilt wheels of a release and verify them"),
    "contract": (
        "contract",
        "build the template (or --device) on the core in dist/<release>/ or a stock one, run the contract (--table)",
    ),
    "new-device": ("new_device", "make third_device/torch_NAME from the template, or update it"),
    "neutral": ("neutral", "a program written for torch.cuda as it would be on torch.accelerator, as a diff"),
}

#: What somebody may type who knows an earlier version or a part of a verb -> what does that now.
FORMER: dict[str, str] = {
    **{word: f"decouple repack {word}" for word in ("split", "thin", "pair", "variants", "core-half")},
    **{word: f"decouple stages {word}" for word in ("sources", "symbols", "units")},
    **{f"stage2-{word}": f"decouple stages {word}" for word in ("sources", "symbols")},
    "top": "decouple series --top",
    "applied": "decouple series --applied",
    "unapplied": "decouple series --unapplied",
    "edit": "decouple add --edit",
    "explain": "decouple verify --explain",
    **{word: f"decouple stages {word}" for word in ("audit", "reuse")},
    "depends": "decouple check --depends",
    "upstream-watch": "decouple upstream watch",
    "tryout": "decouple try wheels",
    "extensions": "decouple try extensions",
    "test-patches": "decouple try patches",
    "from-branch": "decouple branch --back",
    "contract-table": "decouple contract --table",
    "range-diff": "git range-diff",
    "burn-down": "decouple status-table",
}

#: Verb -> the extra of pyproject.toml that brings what it cannot do without; nox installs it for the session.
EXTRAS: dict[str, str] = {
    **dict.fromkeys(("verify", "parity", "kernels", "try"), "verify"),
    **dict.fromkeys(("build", "smoke", "repack"), "build"),
    **dict.fromkeys(("index", "wheels"), "publish"),
}

#: What ``decouple --help`` shows under which title; each verb stands once.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "every day",
        ("apply", "status", "new", "refresh", "check", "census", "build", "verify", "rebase", "test-cuda"),
    ),
    (
        "work on the patches",
        (
            *("fetch", "push", "pop", "series", "add", "fold", "rename"),
            *("delete", "import", "export", "show", "diff", "header", "branch", "bisect"),
            "relocate",
        ),
    ),
    ("build", ("smoke", "shell", "clean", "stages")),
    (
        "check",
        (*("lint", "parity", "kernels", "try", "record", "status-table"),),
    ),
    ("publish", ("repack", "index", "wheels")),
    ("other releases", ("forecast", "manifest", "upstream")),
    ("devices", ("new-device", "contract", "neutral")),
)


def skip_verbose(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command line from its verb on: ``-v`` may go before it."""
    while words and words[0] in ("-v", "-vv", "--verbose"):
        words = words[1:]
    return words

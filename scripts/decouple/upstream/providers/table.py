"""The providers: a new one is a module beside this file, and its row here."""

from __future__ import annotations

from decouple.upstream.providers import debian, git, github, wheel

PROVIDERS = {
    "github": github.PROVIDER,
    "git": git.PROVIDER,
    "debian": debian.PROVIDER,
    "wheel": wheel.PROVIDER,
}

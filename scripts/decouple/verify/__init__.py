"""Audits of what was built: ELF, parity, upstream tests, status files. Knows not how wheels are made."""

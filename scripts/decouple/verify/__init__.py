"""Is what was built what was promised? ELF audit, parity with the monolith, imports. Knows not how wheels are made."""

"""Was built what was promised? ELF, parity, imports. Knows not how wheels are made."""

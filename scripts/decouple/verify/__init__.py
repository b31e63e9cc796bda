"""Was built what was promised? ELF, parity, imports. Knows no making of wheels."""

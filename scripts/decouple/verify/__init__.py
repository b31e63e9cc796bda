"""The verify room: is what was built what was promised? ELF audit, parity with the monolith, imports, status files."""

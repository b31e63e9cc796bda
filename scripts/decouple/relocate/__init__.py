"""Which files move to the backend, by rule, and the rename-only patch that moves them. Knows no building."""

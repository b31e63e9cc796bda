"""What the core offers to device backends that are built apart from it. Imports nothing of torch."""

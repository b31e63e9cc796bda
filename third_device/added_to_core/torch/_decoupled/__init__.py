"""What the core offers to backends built apart from it. Imports no torch."""

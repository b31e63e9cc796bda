"""Make environments, stages and wheels without knowing how patches are made."""

"""All that an installed torch offers, against another: what the official wheel has, and ours has not."""

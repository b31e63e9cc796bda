VERBS: dict = {}

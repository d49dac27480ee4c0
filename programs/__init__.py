"""The verbs: composable `dspy.Module`s built from steps, and the reader of compiled artifacts."""

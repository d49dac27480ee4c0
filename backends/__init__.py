"""Which LM answers which step: litellm bindings, local GGUF models, usage, budgets, record and replay."""

"""The nouns: records, readers, text, the store and its index. No dspy, no network."""

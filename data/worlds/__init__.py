"""Memory-Gym, symbolic track: seeded worlds, told as conversations, with questions whose gold is exact. No model."""

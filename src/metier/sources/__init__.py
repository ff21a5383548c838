"""1. sources: Roots -> Found."""

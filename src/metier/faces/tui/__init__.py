"""The terminal app: it draws events and makes calls, and holds nothing that a replay would not bring back."""

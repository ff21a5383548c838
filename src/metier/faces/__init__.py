"""User interfaces: they render events and values, call the packages below, and hold no state of their own."""

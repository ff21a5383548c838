"""Faces: they draw what the library says and make calls; they hold nothing that could not be rebuilt."""

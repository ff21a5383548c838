"""`metier web`: a local page to look at skills, runs and schedules, and to decide what waits for a person.

A page calls the same functions as the command of the same name, and keeps nothing that a restart would lose.
"""

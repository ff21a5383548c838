"""3. resolve: Skills + Facts -> Verdicts."""

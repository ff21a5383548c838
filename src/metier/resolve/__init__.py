"""3. resolve: Skills + Facts -> Verdicts.

Import `resolver` to decide about all skills, `eligibility` for the requirements of one, `capabilities` for what a
skill asks for and what was trusted, and `environment` for the variables its programs get.
"""

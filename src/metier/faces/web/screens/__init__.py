"""The screens, one module each: functions from a request to a page, or from a form to a change."""

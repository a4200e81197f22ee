"""Suites: a module each, with `cells(quick) -> list[Cell]`."""

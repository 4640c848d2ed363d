"""Plots and HTML pages of runs, comparisons, audits and searches."""

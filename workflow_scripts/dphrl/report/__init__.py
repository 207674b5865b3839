"""Figures, tables and the report pages."""

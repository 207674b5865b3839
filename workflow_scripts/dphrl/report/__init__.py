"""What the reader sees: figures, tables and the page.

Empty, so that a stage depends on the modules that it imports only: a new caption on the page redraws no figure.
"""

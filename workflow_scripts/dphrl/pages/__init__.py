"""HTML pages from templates; the templates and assets of all pages."""

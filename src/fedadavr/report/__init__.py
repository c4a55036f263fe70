"""Reports: tables and curves of runs, as one HTML page, Markdown, CSV or a picture."""

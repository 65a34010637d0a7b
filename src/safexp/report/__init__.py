"""Reports from run folders: pages, figures, tables, videos."""

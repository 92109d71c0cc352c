"""CSV files in four layouts: header, columns, rows."""

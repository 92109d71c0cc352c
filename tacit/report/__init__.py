"""The privacy report: its figures, its builder for jobs and for queries, its plain words."""

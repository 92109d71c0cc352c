"""The privacy report: its figures, what it says of lies, its builder for jobs and for queries, its
plain words."""

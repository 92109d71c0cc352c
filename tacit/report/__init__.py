"""The privacy report: its figures, its statement on lies, its builder for jobs and for queries, its
plain words."""

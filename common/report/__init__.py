"""The privacy report: its figures, the one builder for queries and rounds, its plain words."""

"""Plans: what a round or a schedule would cost, before anything is spent."""

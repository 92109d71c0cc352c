"""What a round or a schedule would cost, before anything is spent, and how a budget came to be what
it is: the past as a line, and the same line carried on by the schedules that are running."""

"""The rounds of the coordinator, from announcement to the released result.

context          what all steps share, and how a stored round is read
opening          a query becomes a round
conductor        advances every unfinished round, beginning with its announcement
state_machine    states and transitions, one transaction each; the quorum
progress         whom an open round awaits, who delivered or refused; the documents of rounds
verification     the contributions of proved rounds are verified
differencing     which released sets exclude a new one
scheduling       rounds of queries with a schedule, and expiry
notifications    long polls
"""

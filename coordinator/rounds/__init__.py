"""The rounds of the coordinator, from announcement to the released result.

context          what all steps share, and how a stored round is read
announcing       the descriptor goes to every aggregator
awaiting         whom an open round awaits, and whether all have delivered
state_machine    states and transitions, one transaction each
conductor        advances every unfinished round
verifying        the contributions of proved rounds are verified
standing         who was refused by the proof, and why
hosts            whose parts are counted in a proved round
opening          a query becomes a round
scheduling       rounds of queries with a schedule
quorum           which aggregators are needed, and which there are
differencing     which released sets exclude a new one
refusals         curators that refused to contribute, counted by reason
changes          long polls
routes, query_routes    the HTTP of rounds and of queries
"""

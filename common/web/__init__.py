"""Parts common to the HTTP services: the application, access, bodies, pages, problems.

app, serve, connections           the application, its server, its connections
auth, tokens, token_routes        bearer tokens and their scopes
access, load, direct              the access log; what is refused; routes of the hot path
bodies, body_limit                request bodies within limits of size and time
wire, paging, idempotency         content types, pages, repeated POSTs
problems                          domain errors as RFC 9457 documents
docs                              OpenAPI
client, transport, probe          how one service calls another; readiness from outside
"""

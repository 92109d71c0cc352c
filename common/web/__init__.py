"""Parts common to the HTTP services: the application, access, bodies, pages, problems.

app, server, middleware           the application, its server, what every request passes
auth, grants                      callers by their bearer tokens; one-time secrets
limits                            which requests are refused, and how large and slow bodies may be
wire, paging, idempotency         content types, pages, repeated POSTs
problems, openapi                 domain errors as RFC 9457 documents; the API's document
client, probe                     how one service calls another; readiness from outside
"""

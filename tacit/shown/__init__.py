"""What the client hands out: the answers of the API as Python objects.

base       `Shown`: a dictionary of the API, its fields as typed attributes too
reports    `Report`, `Preview`: a privacy report; in a notebook who could learn what
rounds     `Round`, `Result`: a round and what it released; as a table, as a picture
queries    `AskedQuery`: a query that was created
jobs       `Job`, `JobResult`, `Picture`
budget     `Budget`: what was claimed and what holds over all that was released
markup     the few elements that a notebook shows
"""

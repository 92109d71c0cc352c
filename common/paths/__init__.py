"""Published paths: their forms, and how a holder of the map recovers a path at its own side.

Spec: path-publishing, sections 2.4 and 3.7 to 3.10. It needs neither services nor algorithms, only
numpy and, for sealed paths, cryptography; the client offers it as `tacit.recovery`.

    published  the forms on the wire        recovery  from map and publication to the path
    levelled   one path out of a DAG        decoding  the likeliest path behind noisy labels
    walking    edges in the order of a path sealed    to named recipients, by their keys
    problems   what is refused
"""

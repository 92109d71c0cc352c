"""Sealed pieces: accepted, opened, stored, summed up per sender.

intake       what happens when pieces arrive
pieces       the wire form of pieces and batches
sessions     what they are sealed under
unsealing    opening of the seals, off the event loop
peer_seals   what aggregators seal to each other
verify_keys  the verify key of a proved round
routes       the HTTP of pieces; seal_key_routes, session_routes: of what they are sealed under
"""

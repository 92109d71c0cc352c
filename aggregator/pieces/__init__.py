"""Sealed pieces: accepted, opened, stored, summed up per sender.

routes              the HTTP of pieces and batches, and their acceptance
intake              what happens when pieces arrive
unsealing           sealing sessions, and opening of the seals, off the event loop
peer_seals          what aggregators seal to each other; the verify key of a proved round
"""

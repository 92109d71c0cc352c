"""Sealed pieces: accepted, opened, stored, summed up per sender.

intake       what happens when pieces arrive
pieces       the wire form of pieces and batches
unsealing    opening of the seals, off the event loop
routes       the HTTP of pieces
"""

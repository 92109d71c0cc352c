"""Services on this machine: run and check them, back them up and restore them, demonstrate and
simulate with them.
"""

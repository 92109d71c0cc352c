"""The routes of the coordinator's API, a module for each subject.

A route reads its request, calls one function of its room, and returns a model of `tacit.answers`.
"""

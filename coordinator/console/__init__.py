"""The coordinator's console: pages for operators and analysts.

Every page shows what the API answers to the same token, and a button does what the API does.
Spec: console, section 5.
"""

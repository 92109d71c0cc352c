"""The curator's console: pages for owners of curators and the operator of their process.

Every page shows what the API tells the same token, and a button does what the API does.
Spec: console, section 6.
"""

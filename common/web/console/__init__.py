"""Pages for people, made on the server: sessions, forms, pictures, and what all pages share.

Only imported where `TACIT_CONSOLE` is on (extra `console`).
"""

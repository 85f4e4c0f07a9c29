"""What an optimizer is doing, and why it trusts what it trusts, as pictures: live from the service, or in one file.

    the log → window (what is shown of it) → views (the numbers behind the pictures) → static/ (the pictures)

Everything here reads. Nothing of it can slow a writer down: it has a connection and a process of its own.
"""

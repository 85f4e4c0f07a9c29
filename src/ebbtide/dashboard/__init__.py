"""What an optimizer is doing, and which observations it still trusts: live from the service, or in one file.

    the log → excerpt (how much of it is shown) → views (the numbers of the figures) → static/ (the figures)

Everything here only reads, over a connection and in a process of its own: viewers never slow writers.
"""

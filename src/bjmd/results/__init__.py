"""What every method shares: the registry, the loop, restarts, results, their posterior, and what is
made of them.
"""

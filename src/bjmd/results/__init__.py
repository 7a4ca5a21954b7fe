"""What a fit is: the decomposition, its posterior, what it predicts, and how it is stored."""

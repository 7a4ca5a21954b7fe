"""What goes in: sources, the matrices behind them, and how they are matched and scaled."""

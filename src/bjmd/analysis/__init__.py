"""What people ask of a fit: intervals, checks, variance explained, consensus, associations, K."""

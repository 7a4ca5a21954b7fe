"""What the closed form and MAP are compared with, the paper's own ADVI included: one file a method."""

"""Trees over arrays of scores: NumPy arrays in, NumPy arrays out."""

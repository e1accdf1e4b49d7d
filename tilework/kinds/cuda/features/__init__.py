"""What a kernel costs on a GPU, counted for all rows of a population at once."""

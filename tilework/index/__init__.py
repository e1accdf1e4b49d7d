"""The compiler's integers: extents, linear forms, their ranges, division, and strides.

The lowest room of the engine: it imports none of the others, and whoever computes with indices
takes it. What an expression is as a form is said by `tilework.te.affine`.
"""

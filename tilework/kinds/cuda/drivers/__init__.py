"""What programs run on: a device through CuPy, or its emulation; and what is made of a driver."""

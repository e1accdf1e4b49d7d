"""Where kernels of GPU targets are measured: on the device, on its emulation, or nowhere."""

"""CUDA kernels on this machine's processor: the threads of a block as fibres, checked or fast."""

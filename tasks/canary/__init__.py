"""The canary: a few frozen kernels, timed beside the calibration loop now and then.

`run` holds the order, `frozen` which kernels, `probe` how they are timed, `drift` what a series of
readings says, `journal` what is kept from run to run, `remedy` what is done about slow kernels.
"""

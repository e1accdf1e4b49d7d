"""A yardstick: Ansor's own search, restated in this engine.

After the description of the original (TVM's auto-scheduler, release 0.14; OSDI 2020):
its sketches (`rules`, for GPUs `cuda_rules`), random annotation, mutation without crossover,
selection in proportion to scores, batches of the best and a few at random, and boosted trees over
164 features of every store, which know nothing before they have 100 measurements. What it shares
with Tilework's own search is what lies below: decision tables, register limits, code generation
and measurement. So it never tries the tilings that cannot be compiled well here, which the
original would; and it has the original's sketches, none of the forms of ours (Winograd among
them).
"""

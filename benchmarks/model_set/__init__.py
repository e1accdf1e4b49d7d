"""Models as people have them today: random weights, exported by PyTorch, with dynamic shapes.

export       a model of the set, and the two exporters
text         encoders of texts, also after ONNX Runtime's optimiser
decoders     language models with a cache, experts
speech       Whisper, recurrent networks with CTC heads
images       classifiers of timm
detection    a one-stage detector with its non-maximum suppression
diffusion    a U-Net that is conditioned on a text
others       recommendation, graphs
sizes        images of any size
small        small ones of many architectures, of fixed shapes
catalogue    all of them, by name
child        one measurement, in a process of its own
table        what was measured, as a table
"""

"""Frozen encoders as ONNX graphs, which onnxruntime and others run without torch."""

from debiased_contrastive.integrations.onnx.export import write_onnx

__all__ = ["write_onnx"]

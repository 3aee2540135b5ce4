"""Compiled kernels: decoding, sums over trees and sampling, on memory and numbers alone."""

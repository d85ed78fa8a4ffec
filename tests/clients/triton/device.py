"""Arrays on the device for Triton without PyTorch: what its launcher needs of a tensor, and copies."""

import numpy as np
from cuda.bindings import driver as cu

_TRITON = {"float32": "float32", "float16": "float16", "int32": "int32"}


def _checked(answer):
    status, *values = answer
    if status.value:
        raise RuntimeError(status)
    return values[0] if values else None


class Array:
    """An array whose address Triton may have."""

    def __init__(self, values):
        self._like = np.ascontiguousarray(values)
        self.shape = self._like.shape
        self.dtype = _dtype(self._like.dtype)
        self._pointer = _checked(cu.cuMemAlloc(self._like.nbytes))
        _checked(cu.cuMemcpyHtoD(self._pointer, self._like.ctypes.data, self._like.nbytes))

    def data_ptr(self):
        return int(self._pointer)

    def numpy(self):
        """The values, once all kernels before have ended."""
        out = np.empty_like(self._like)
        _checked(cu.cuCtxSynchronize())
        _checked(cu.cuMemcpyDtoH(out.ctypes.data, self._pointer, out.nbytes))
        return out

    def __del__(self):
        cu.cuMemFree(self._pointer)


def _dtype(dtype):
    import triton.language as tl

    return getattr(tl, _TRITON[dtype.name])


def empty(shape, dtype):
    return Array(np.zeros(shape, dtype))

"""Loaded by every Python that starts under `gridmux run`, before the program.

gridmux executes PTX. Libraries that find NVIDIA's nvJitLink link PTX to machine code themselves; without it they hand
PTX to the driver library. So nvJitLink is reported as not installed to whoever looks for it through cuda.pathfinder,
which is how cuda-bindings, cuda-core and numba-cuda do. Nothing else changes, and the environment's own
`sitecustomize`, if it has one, is loaded afterwards.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import warnings

_PATHFINDER = "cuda.pathfinder"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds cuda.pathfinder as Python would, and changes it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != _PATHFINDER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _hide_nvjitlink(module)

            spec.loader.exec_module = exec_module
        return spec


def _hide_nvjitlink(pathfinder):
    load = getattr(pathfinder, "load_nvidia_dynamic_lib", None)
    missing = getattr(pathfinder, "DynamicLibNotFoundError", RuntimeError)
    if load is None:
        return

    def load_nvidia_dynamic_lib(libname, *args, **kwargs):
        if libname == "nvJitLink":
            raise missing("nvJitLink is hidden by gridmux run: gridmux executes PTX, which the driver library links")
        return load(libname, *args, **kwargs)

    load_nvidia_dynamic_lib.__wrapped__ = load
    pathfinder.load_nvidia_dynamic_lib = load_nvidia_dynamic_lib


def _load_next():
    """Loads the sitecustomize that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# cuda-core warns of it, but it is as it should be here.
warnings.filterwarnings("ignore", message="cuda.bindings.nvjitlink is not available")
sys.meta_path.insert(0, _Finder())
_load_next()

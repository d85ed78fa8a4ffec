"""Loaded by every Python that starts under `gridmux run`, before the program.

gridmux executes PTX. Libraries that find NVIDIA's nvJitLink link PTX to machine code themselves; without it they hand
PTX to the driver library. So nvJitLink is reported as not installed to whoever looks for it through cuda.pathfinder,
which is how cuda-bindings, cuda-core and numba-cuda do, and cuda-core's warning that it is missing is silenced. The
environment's own `sitecustomize`, if it has one, is loaded afterwards in place of this one.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import warnings

_PATHFINDER = "cuda.pathfinder"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds cuda.pathfinder as the finders behind this one do, and changes it each time that it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != _PATHFINDER:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                _change(spec.loader)
                return spec
        return None


def _change(loader):
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        execute(module)
        _hide_nvjitlink(module)

    loader.exec_module = exec_module


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

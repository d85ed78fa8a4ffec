"""Loaded by every Python that starts under `gridmux run`, before the program.

What packages have in them that `LD_LIBRARY_PATH` and an audit library cannot exchange is exchanged here, each when its
module is imported:

- cuda.pathfinder: gridmux executes PTX, and libraries that find NVIDIA's nvJitLink link PTX to machine code themselves;
  without it they hand PTX to the driver library. So nvJitLink is reported as not installed, and cuda-core's warning
  that it is missing is silenced.
- cuda.bindings: its runtime library is linked in statically, and reached through a table of functions that one of its
  modules makes for the others. gridmux's functions are put into that table.
- cupy: its runtime library is linked in statically as well, once into each module that needs it, and called directly.
  A module's symbols say where each function is; there a jump to gridmux's function is written.

The environment's own `sitecustomize`, if it has one, is loaded afterwards in place of this one.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import warnings


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as the finders behind this one do, and changes some each time that they are loaded."""

    def find_spec(self, name, path, target=None):
        change = _CHANGES.get(name)
        if change is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                _change(spec.loader, change)
                return spec
        return None


def _change(loader, change):
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        execute(module)
        change(module)

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


def _runtime(version):
    """gridmux's runtime library of a version of CUDA; None if it is not there."""
    import ctypes

    try:
        return ctypes.CDLL(f"libcudart.so.{version}")
    except OSError:
        return None


def _exchange_runtime(module, variants=("",)):
    """Puts gridmux's runtime library into the table of a module of cuda.bindings.

    The table is Cython's: by name a capsule with a function's address, called what its C declaration is. The names are
    those of the runtime API behind an underscore.
    """
    import ctypes

    table = getattr(module, "__pyx_capi__", None)
    version = getattr(sys.modules.get("cuda.bindings"), "__version__", "").split(".")[0]
    library = _runtime(version)
    if table is None or library is None:
        return
    # Objects of their own: attributes of `ctypes.pythonapi`'s are everybody's.
    name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCapsule_New", ctypes.pythonapi))
    for name, present in list(table.items()):
        found = (getattr(library, name[1:] + variant, None) for variant in variants)
        function = next((function for function in found if function is not None), None)
        if name.startswith("_cuda") and function is not None:
            # The name is the module's own string, which stays as long as the module's code.
            table[name] = capsule(_address(function), name_of(present), None)


def _exchange_runtime_per_thread(module):
    """As above, for the module whose functions mean the calling thread's own stream by stream 0."""
    _exchange_runtime(module, ("_ptds", "_ptsz", ""))


def _exchange_static_runtime(module):
    """Has the functions of a runtime library that is linked into a module of CuPy's jump to gridmux's.

    What the module registered with its own functions as it was loaded, it registers once more.
    """
    import ctypes
    import mmap

    runtime = sys.modules.get("cupy_backends.cuda.api.runtime")
    library = runtime and _runtime(runtime.runtimeGetVersion() // 1000)
    with open(module.__file__, "rb") as file:
        functions = _functions(file.read())
    entry = "PyInit_" + module.__name__.rsplit(".", 1)[-1]
    if library is None or entry not in functions:
        return
    base = _address(getattr(ctypes.PyDLL(module.__file__), entry)) - functions[entry][0]
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    jump = b"\xff\x25\0\0\0\0"  # to the address in the eight bytes that follow
    for name, (offset, size) in functions.items():
        function = getattr(library, name, None) if name.startswith(("cuda", "__cuda")) else None
        if function is None or size < len(jump) + 8:
            continue
        at = base + offset
        page = at & -mmap.PAGESIZE
        span = at + len(jump) + 8 - page
        if protect(page, span, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
            return
        ctypes.memmove(at, jump + _address(function).to_bytes(8, "little"), len(jump) + 8)
        protect(page, span, mmap.PROT_READ | mmap.PROT_EXEC)
    for name, (offset, _) in functions.items():
        if "__sti____cudaRegisterAll" in name:
            ctypes.CFUNCTYPE(None)(base + offset)()


def _address(function):
    import ctypes

    return ctypes.cast(function, ctypes.c_void_p).value


def _functions(elf):
    """Names, offsets and sizes of the functions of a shared object of x86-64, as far as it has kept them."""
    import struct

    if elf[:5] != b"\x7fELF\2":
        return {}
    start, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    # Of each section: type, offset, size, and the section with the names of its symbols.
    sections = [struct.unpack_from("<4xI16xQQI", elf, start + 64 * n) for n in range(count)]
    found = {}
    for kind, offset, size, names in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        for at in range(offset, offset + size, 24):
            name, info, _, section, value, length = struct.unpack_from("<IBBHQQ", elf, at)
            if info & 15 == 2 and section:  # STT_FUNC, defined
                begin = sections[names][1] + name
                found[elf[begin : elf.index(b"\0", begin)].decode()] = value, length
    return found


_CHANGES = {
    "cuda.pathfinder": _hide_nvjitlink,
    "cuda.bindings._internal.runtime": _exchange_runtime,
    "cuda.bindings._internal.runtime_ptds": _exchange_runtime_per_thread,
    # As they are called in the packages for CUDA 12.
    "cuda.bindings._bindings.cyruntime": _exchange_runtime,
    "cuda.bindings._bindings.cyruntime_ptds": _exchange_runtime_per_thread,
    "cupy_backends.cuda.api.runtime": _exchange_static_runtime,
    "cupy.cuda.cub": _exchange_static_runtime,
    "cupy.cuda.thrust": _exchange_static_runtime,
    "cupy.random._generator_api": _exchange_static_runtime,
}


def _load_next():
    """Loads the sitecustomize that this one stands in front of."""
    others = [entry for entry in sys.path if os.path.abspath(entry) not in _OURS]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# The folders of this module: several where `gridmux run` runs in `gridmux run`, of which the first one is enough.
_OURS = sys.__dict__.setdefault("_gridmux_run", set())
if not _OURS:
    # cuda-core warns of it, but it is as it should be here.
    warnings.filterwarnings("ignore", message="cuda.bindings.nvjitlink is not available")
    sys.meta_path.insert(0, _Finder())
_OURS.add(os.path.dirname(os.path.abspath(__file__)))
_load_next()

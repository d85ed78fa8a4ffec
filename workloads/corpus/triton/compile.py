"""Compiles the Triton kernels of this folder to PTX without a GPU.

Usage: compile.py OUTPUT_FOLDER [NAME ...]

Each other file here holds kernels and a list KERNELS of rows: name, function, signature, constants, architectures,
warps. A row gives OUTPUT_FOLDER/NAME.smXX.ptx. The files are read under a name without a folder, so that no path gets
into the line information.
"""

import linecache
import pathlib
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def load(path):
    """Runs a script under the bare name of its file; Triton finds the functions' text through linecache."""
    text = path.read_text()
    linecache.cache[path.name] = (len(text), None, text.splitlines(True), path.name)
    module = {"__name__": path.stem, "__file__": path.name}
    exec(compile(text, path.name, "exec"), module)
    return module["KERNELS"]


def main():
    out = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).parent
    for path in sorted(here.glob("*.py")):
        if path.name == "compile.py" or sys.argv[2:] and path.stem not in sys.argv[2:]:
            continue
        for name, function, signature, constants, architectures, warps in load(path):
            signature = {**signature, **{key: "constexpr" for key in constants}}
            names = [argument for argument in function.arg_names]
            # Pointers and sizes that are multiples of 16, which is what the launcher finds nearly always.
            attributes = {
                (index,): [["tt.divisibility", 16]]
                for index, argument in enumerate(names)
                if signature[argument].startswith("*")
            }
            for architecture in architectures:
                source = ASTSource(function, signature, constants, attributes)
                target = GPUTarget("cuda", architecture, 32)
                text = triton.compile(source, target=target, options={"num_warps": warps}).asm["ptx"]
                # Triton's own functions appear in the line information with the place of its installation.
                text = text.replace(str(pathlib.Path(triton.__file__).parent), "/triton")
                (out / f"{name}.sm{architecture}.ptx").write_text(text)


main()

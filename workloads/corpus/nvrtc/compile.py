"""Compiles the sources of this folder to PTX with NVIDIA's run-time compiler.

Usage: compile.py CUDA_HOME OUTPUT_FOLDER [NAME ...]

A comment `// arch: 80 90` in a source names its architectures, `// flags: ...` adds options; each gives
OUTPUT_FOLDER/NAME.smXX.ptx. The library sees the file's bare name, so that no path gets into the output.
"""

import ctypes
import pathlib
import re
import sys


def main():
    home = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    library = ctypes.CDLL(str(home / "lib/libnvrtc.so.13"))
    failed = False
    for path in sorted(pathlib.Path(__file__).parent.glob("*.cu")):
        if sys.argv[3:] and path.stem not in sys.argv[3:]:
            continue
        text = path.read_bytes()
        flags = (re.findall(rb"^// flags: (.*)", text, re.M) or [b""])[0].split()
        for architecture in re.findall(rb"^// arch: (.*)", text, re.M)[0].split():
            program = ctypes.c_void_p()
            library.nvrtcCreateProgram(ctypes.byref(program), text, path.name.encode(), 0, None, None)
            options = [b"--gpu-architecture=compute_" + architecture, b"--std=c++17", b"--include-path=" + str(home / "include").encode(), *flags]
            if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
                size = ctypes.c_size_t()
                library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
                log = ctypes.create_string_buffer(size.value)
                library.nvrtcGetProgramLog(program, log)
                print(f"{path.name} for {architecture.decode()}:\n{log.value.decode()}", file=sys.stderr)
                failed = True
                continue
            size = ctypes.c_size_t()
            library.nvrtcGetPTXSize(program, ctypes.byref(size))
            ptx = ctypes.create_string_buffer(size.value)
            library.nvrtcGetPTX(program, ptx)
            (out / f"{path.stem}.sm{architecture.decode()}.ptx").write_bytes(ptx.value)
            library.nvrtcDestroyProgram(ctypes.byref(program))
    sys.exit(failed)


main()

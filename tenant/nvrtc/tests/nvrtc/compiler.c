// A compiler at run time that compiles nothing: its PTX is its options, one a line, and for a real architecture its
// machine code is "code". With the option `fail` it fails, and with `-dlto` it has no PTX.

#include <stdlib.h>
#include <string.h>

typedef struct {
  char ptx[200];
  int has_code;
} Program;

int nvrtcCreateProgram(Program **program, const char *source, const char *name, int count, const char *const *headers,
                       const char *const *names) {
  *program = calloc(1, sizeof **program);
  return 0;
}

int nvrtcDestroyProgram(Program **program) {
  free(*program);
  *program = NULL;
  return 0;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  memset(program, 0, sizeof *program);
  int has_ptx = 1;
  if (count < 0 || (count && !options)) return 3;
  for (int i = 0; i < count; i++) {
    if (!options[i]) return 3;
    if (!strcmp(options[i], "fail")) return memset(program, 0, sizeof *program), 6;
    if (!strcmp(options[i], "-dlto")) has_ptx = 0;
    if (strstr(options[i], "=sm_")) program->has_code = 1;
    strcat(strcat(program->ptx, options[i]), "\n");
  }
  if (!has_ptx) *program->ptx = 0;
  return 0;
}

int nvrtcGetPTXSize(Program *program, size_t *bytes) { return *bytes = strlen(program->ptx) + 1, 0; }

int nvrtcGetPTX(Program *program, char *text) { return strcpy(text, program->ptx), 0; }

int nvrtcGetCUBINSize(Program *program, size_t *bytes) { return *bytes = program->has_code ? 4 : 0, 0; }

int nvrtcGetCUBIN(Program *program, char *code) { return program->has_code ? (memcpy(code, "code", 4), 0) : 3; }

// Exchanges files that the dynamic loader is about to open for gridmux's libraries, by the last part of their names:
// an audit library (rtld-audit(7)).
//
// The loader asks about a name as it was asked for, and then, if that is no path, about each file that it tries. glibc
// asks about a path in the first form only, before it expands `$ORIGIN`: a path with that is not exchanged.
//
// It stands alone: without the C library, it is one small file in every process. The loader calls it with its lock
// held, so that nothing here is called by two threads at once.

#include <stddef.h>
#include <stdint.h>

// EXCHANGED, what stands before a library's name where the file is asked for that it was opened in place of, is what the
// file `exchanged` says (`build.rs`).

#define EXPORTED __attribute__((visibility("default")))

// Bytes of a path in the folder, the end included.
enum { PATH_BYTES = 160 };
// Bytes of the path of a file that was exchanged, the end included.
enum { EXCHANGED_BYTES = 4096 };
// Links followed from a name without a version.
enum { MOST_LINKS = 8 };
// `la_objsearch` is told a name as it was asked for (link.h, LA_SER_ORIG); all other flags mean a file.
enum { AS_ASKED = 1 };
// System calls of x86-64.
enum { SYS_ACCESS = 21, SYS_READLINK = 89 };

// A library in the folder: how names of it begin, the version behind that ("" for any), and where it is; and the first
// file that it was exchanged for.
typedef struct {
  const char *name, *version, *file;
  char path[PATH_BYTES];
  char exchanged[EXCHANGED_BYTES];
} Library;

static Library libraries[] = {
    {.name = "libcuda.so", .version = "", .file = "/libcuda.so.1"},
    {.name = "libcudart.so", .version = ".12", .file = "/libcudart.so.12"},
    {.name = "libcudart.so", .version = ".13", .file = "/libcudart.so.13"},
    {.name = "libnvrtc.so", .version = ".12", .file = "/nvrtc/libnvrtc.so.12"},
    {.name = "libnvrtc.so", .version = ".13", .file = "/nvrtc/libnvrtc.so.13"},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static long call(long number, const void *first, const void *second, long third) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return result;
}

static int exists(const char *path) { return call(SYS_ACCESS, path, NULL, 0) == 0; }

// The rest of a text behind its beginning; NULL if it begins otherwise.
static const char *behind(const char *text, const char *beginning) {
  for (; *beginning; text++, beginning++)
    if (*text != *beginning) return NULL;
  return text;
}

static const char *last_part(const char *path) {
  const char *part = path;
  for (; *path; path++)
    if (*path == '/') part = path + 1;
  return part;
}

// Appends a text to a path that has room for so many bytes.
static void append(char *path, size_t bytes, size_t *at, const char *text) {
  while (*text && *at < bytes - 1) path[(*at)++] = *text++;
  path[*at] = 0;
}

// The library that a last part of a name means. A name without a version gives none, but says so in `is_bare`.
static Library *meant(const char *part, int *is_bare) {
  for (size_t i = 0; i < LIBRARIES; i++) {
    const char *rest = behind(part, libraries[i].name);
    if (!rest) continue;
    if (!*rest && *libraries[i].version) *is_bare = 1;
    rest = behind(rest, libraries[i].version);
    if (rest && (!*rest || *rest == '.')) return &libraries[i];
  }
  return NULL;
}

// The library that a file stands for; links tell the version where the name does not.
static Library *library_of(const char *file) {
  static char target[4096];
  int is_bare = 0;
  const char *part = last_part(file);
  Library *library = meant(part, &is_bare);
  if (library || !is_bare) return library;
  // A link may go to another folder, where its own target would be sought; toolkits keep both in one.
  static char link[4096];
  size_t folder = 0;
  for (; file + folder < part && folder < sizeof link - 1; folder++) link[folder] = file[folder];
  for (int followed = 0; followed < MOST_LINKS; followed++) {
    size_t end = folder;
    while (*part && end < sizeof link - 1) link[end++] = *part++;
    link[end] = 0;
    long bytes = call(SYS_READLINK, link, target, sizeof target - 1);
    if (bytes <= 0) return NULL;
    target[bytes] = 0;
    part = last_part(target);
    is_bare = 0;
    library = meant(part, &is_bare);
    if (library || !is_bare) return library;
  }
  return NULL;
}

// Notes which libraries the folder has.
__attribute__((constructor)) static void begin(int count, char **words, char **variables) {
  (void)count, (void)words;
  for (; *variables; variables++) {
    const char *folder = behind(*variables, "GRIDMUX_LIBRARIES=");
    if (!folder) continue;
    for (size_t i = 0; i < LIBRARIES; i++) {
      size_t at = 0;
      append(libraries[i].path, PATH_BYTES, &at, folder);
      append(libraries[i].path, PATH_BYTES, &at, libraries[i].file);
      if (at == PATH_BYTES - 1 || !exists(libraries[i].path)) *libraries[i].path = 0;
    }
    return;
  }
}

// Any version of the interface has the one function that follows.
EXPORTED unsigned la_version(unsigned version) { return version; }

EXPORTED char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
  (void)cookie;
  int is_bare = 0;
  const char *part = behind(name, EXCHANGED);
  if (part) {
    // A library of the folder asks for the file in whose place it was opened.
    const Library *library = meant(part, &is_bare);
    return (char *)(library && *library->exchanged ? library->exchanged : name);
  }
  // A name that is no path is searched first: what is not found then is not found here either.
  if (flag == AS_ASKED && last_part(name) == name) return (char *)name;
  Library *library = library_of(name);
  if (!library || !*library->path || !exists(name)) return (char *)name;
  size_t at = 0;
  if (!*library->exchanged) append(library->exchanged, EXCHANGED_BYTES, &at, name);
  return library->path;
}

// Opens the libraries that its arguments name and prints what `which` of each says, or `none`. An argument `-fork`
// has a child do the rest, `-threads` four threads at once.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *opened(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *(*which)(void) = library ? (const char *(*)(void))dlsym(library, "which") : NULL;
  return which ? which() : "none";
}

static void *open_often(void *name) {
  const char *said = NULL;
  for (int i = 0; i < 100; i++) said = opened(name);
  return (void *)said;
}

int main(int count, char **words) {
  for (int i = 1; i < count; i++) {
    if (!strcmp(words[i], "-fork")) {
      int status = 0;
      if (fork()) return wait(&status) < 0 || status;
    } else if (!strcmp(words[i], "-threads")) {
      pthread_t threads[4];
      i++;
      for (int t = 0; t < 4; t++) pthread_create(&threads[t], NULL, open_often, words[i]);
      for (int t = 0; t < 4; t++) {
        void *said;
        pthread_join(threads[t], &said);
        puts((const char *)said);
      }
    } else {
      puts(opened(words[i]));
    }
  }
  return 0;
}

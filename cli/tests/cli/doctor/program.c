/* Opens the driver library that it is given, says `open`, and at each line that it reads launches twice, allocates once
 * and copies three times; then it says `called`. A name, if one is given, is what it calls itself. With one word more a
 * second thread does all that, and the first one ends. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

typedef int (*allocate)(unsigned long long *, unsigned long);
typedef int (*copy_in)(unsigned long long, const void *, unsigned long);
typedef int (*copy_out)(void *, unsigned long long, unsigned long);
typedef int (*launch)(void *);

static char **words;

static void *work(void *name)
{
	void *library = dlopen(words[1], RTLD_NOW);
	char line[16], byte = 0;
	unsigned long long address;

	if (!library)
		return words;
	if (name)
		prctl(PR_SET_NAME, name);
	puts("open");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		((launch)dlsym(library, "cuLaunchKernel"))(line);
		((launch)dlsym(library, "cuLaunchKernel"))(line);
		((allocate)dlsym(library, "cuMemAlloc_v2"))(&address, 8);
		((copy_in)dlsym(library, "cuMemcpyHtoD_v2"))(address, &byte, 1);
		((copy_in)dlsym(library, "cuMemcpyHtoD_v2"))(address, &byte, 1);
		((copy_out)dlsym(library, "cuMemcpyDtoH_v2"))(&byte, address, 1);
		puts("called");
		fflush(stdout);
	}
	return NULL;
}

int main(int count, char **given)
{
	pthread_t thread;
	char *name = count > 2 ? given[2] : NULL;

	words = given;
	if (count <= 3)
		return work(name) != NULL;
	if (pthread_create(&thread, NULL, work, name))
		return 1;
	pthread_exit(NULL);
}

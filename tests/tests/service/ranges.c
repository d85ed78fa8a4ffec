/*
 * A program with NVTX's side of its own: tables of functions, as the headers compile them into programs, and the search
 * for the library that fills them. It does what its arguments say, one after another.
 *
 * Rule: it prints the number of its process first, and then each argument when that is done; at `wait` it reads a line.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

#define CORE 1
#define CORE2 5

typedef void (*function)(void);

/* What is called, by the number of a function in its module. */
static function core[16], core2[16];
static function *core_places[17], *core2_places[17];

struct callbacks {
	size_t size;
	int (*table_of)(unsigned module, function ***table, unsigned *length);
};

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

static int table_of(unsigned module, function ***table, unsigned *length)
{
	if (module != CORE && module != CORE2)
		return 0;
	*table = module == CORE ? core_places : core2_places;
	*length = 16;
	return 1;
}

static const void *exported(uint32_t number)
{
	static const struct callbacks callbacks = { sizeof(callbacks), table_of };

	return number == 1 ? &callbacks : NULL;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static function function_of(function *table, unsigned number)
{
	if (!table[number])
		fail("a function was not given");
	return table[number];
}

#define PUSH(text) (((int (*)(const char *))function_of(core, 9))(text))
#define POP() (((int (*)(void))function_of(core, 11))())
#define MARK(text) (((void (*)(const char *))function_of(core, 2))(text))
#define START(text) (((uint64_t(*)(const char *))function_of(core, 5))(text))
#define END(range) (((void (*)(uint64_t))function_of(core, 7))(range))

static void nested(void)
{
	PUSH("epoch");
	PUSH("load");
	MARK("loaded");
	POP();
	POP();
}

static void *other_thread(void *range)
{
	PUSH("in a thread");
	POP();
	END(*(uint64_t *)range);
	return NULL;
}

static void overlapping(void)
{
	uint64_t first = START("first"), second = START("second");
	pthread_t thread;

	pthread_create(&thread, NULL, other_thread, &first);
	pthread_join(thread, NULL);
	END(second);
}

static struct attributes attributes_of(int type, const void *message)
{
	struct attributes of = { .version = 2, .size = sizeof(of), .message_type = type, .message = message };

	return of;
}

static void domains(void)
{
	char name[] = "torch";
	const void *domain = ((const void *(*)(const char *))function_of(core2, 12))(name);
	char text[] = "registered";
	const void *registered = ((const void *(*)(const void *, const char *))function_of(core2, 10))(domain, text);
	struct attributes of = attributes_of(3, registered);

	/* Both were copied. */
	memset(name, 'x', sizeof(name) - 1);
	memset(text, 'x', sizeof(text) - 1);
	((int (*)(const void *, const struct attributes *))function_of(core2, 4))(domain, &of);
	of = attributes_of(1, "plain");
	((void (*)(const void *, const struct attributes *))function_of(core2, 1))(domain, &of);
	((int (*)(const void *))function_of(core2, 5))(domain);
	of = attributes_of(2, L"weiß 图");
	((int (*)(const struct attributes *))function_of(core, 8))(&of);
	POP();
	((void (*)(const wchar_t *))function_of(core, 3))(L"wide");
}

/* Returns a text at the end of a page behind which nothing can be read; it has no zero. */
static const void *without_end(const void *text, size_t bytes)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE))
		fail("mmap");
	return memcpy(pages + 4096 - bytes, text, bytes);
}

static void hostile(void)
{
	char *huge = malloc(1 << 20);
	struct attributes of;
	unsigned depth;

	memset(huge, 'h', (1 << 20) - 1);
	huge[(1 << 20) - 1] = 0;
	POP();
	POP();
	END(0);
	END(77);
	MARK(huge);
	MARK(NULL);
	MARK("");
	MARK(without_end("cut", 3));
	MARK((const char *)16);
	MARK("\xff\x1b[2J\n");
	((void (*)(const wchar_t *))function_of(core, 3))(without_end(L"w", sizeof(wchar_t)));
	((void (*)(const wchar_t *))function_of(core, 3))(NULL);
	((void (*)(const void *))function_of(core, 1))(NULL);
	of = attributes_of(3, (const void *)24);
	((void (*)(const void *))function_of(core, 1))(&of);
	of = attributes_of(9, huge);
	((void (*)(const void *))function_of(core, 1))(&of);
	of = attributes_of(1, "too short");
	of.size = 8;
	((void (*)(const void *))function_of(core, 1))(&of);
	/* A domain that nobody made. */
	of = attributes_of(1, "lost");
	((void (*)(const void *, const void *))function_of(core2, 1))((const void *)40, &of);
	for (depth = 0; depth < 10000; depth++)
		PUSH("deep");
	for (depth = 0; depth < 10000; depth++)
		POP();
	free(huge);
}

/* Goes on until there is something to read. */
static void repeated(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	do {
		PUSH("epoch");
		POP();
	} while (!poll(&input, 1, 10));
}

/* Becomes a client of the service. */
static void connect_to_service(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;

	if (!init || init(0))
		fail("cuInit");
}

static void find_library(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*initialize)(const void *(*)(uint32_t)) = NULL;
	unsigned number;

	for (number = 1; number < 16; number++) {
		core_places[number] = &core[number];
		core2_places[number] = &core2[number];
	}
	if (library)
		initialize = (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
	if (!initialize || initialize(exported) != 1)
		fail("no library for NVTX");
}

int main(int count, char **arguments)
{
	int at;

	setvbuf(stdout, NULL, _IONBF, 0);
	find_library();
	printf("%d\n", getpid());
	for (at = 1; at < count; at++) {
		const char *what = arguments[at];

		if (!strcmp(what, "nested"))
			nested();
		else if (!strcmp(what, "overlapping"))
			overlapping();
		else if (!strcmp(what, "domains"))
			domains();
		else if (!strcmp(what, "hostile"))
			hostile();
		else if (!strcmp(what, "connect"))
			connect_to_service();
		else if (!strcmp(what, "repeated"))
			repeated();
		else if (!strcmp(what, "open"))
			PUSH("work");
		else if (!strcmp(what, "close"))
			POP();
		else if (!strcmp(what, "wait"))
			getchar();
		else
			fail(what);
		printf("%s\n", what);
	}
	return 0;
}

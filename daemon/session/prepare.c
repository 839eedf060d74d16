/* Tables that are made before sampling begins: prepare.h. Daemon, session loop. */
#include "daemon/session/prepare.h"

#include "common/cleanup.h"
#include "daemon/linux/interpreter.h"
#include "daemon/linux/maps.h"
#include "daemon/session/agent_tables.h"
#include "daemon/unwind/build.h"
#include "proto/shm.h"
#include "proto/tables.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERPRETERS_MAX 4 /* a script's, its program's; the kernel takes no more of them either */

static int build(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		 struct kp_err *err)
{
	return kp_unwind_build(image, size, name, ret, ret_bytes, NULL, err);
}

int kp_prepare_store(uint16_t machine, struct kp_store **ret, char *ret_why, size_t size,
		     struct kp_err *err)
{
	/* At its offsets there it is mapped in targets, as a part of the agent's memory. */
	struct kp_store_options options = { .machine = machine,
					    .build = build,
					    .memory_name = KP_SHM_NAME,
					    .memory_empty = KP_TABLES_DIRECTORY_BYTES };
	struct kp_err why = { .text = "" };
	char base[4096];

	if (kp_cache_base(base, sizeof(base), &why) < 0 ||
	    kp_cache_create(base, &kp_store_cache_kind, KP_STORE_CACHE_BYTES, &options.cache,
			    &why) < 0)
		options.cache = NULL;
	snprintf(ret_why, size, "%s", options.cache ? "" : why.text);
	return kp_store_create(&options, ret, err);
}

static int write_nothing(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	(void)ctx, (void)data, (void)size, (void)err;
	return 0;
}

void kp_prepare_process(struct kp_store *store, pid_t pid)
{
	struct kp_raw_writer nowhere = { .write = write_nothing };
	struct kp_modules modules;
	struct kp_pins *pins;

	if (!store || kp_pins_create(&pins, NULL) < 0)
		return;
	kp_modules_init(&modules, pid, &nowhere, pins);
	modules.found = kp_agent_tables_found;
	modules.found_ctx = store;
	kp_modules_scan(&modules, NULL, NULL);
	kp_modules_deinit(&modules);
	kp_pins_destroy(pins);
	kp_store_wait(store, KP_PREPARE_MS);
}

/* As execvp() does: a name without a slash is looked for along PATH. */
static int open_program(const char *name)
{
	const char *path = getenv("PATH");
	char full[4096];

	if (strchr(name, '/') || !path)
		return open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (*path) {
		size_t len = strcspn(path, ":");
		int n = snprintf(full, sizeof(full), "%.*s/%s", (int)len, len ? path : ".", name);

		if (n < (int)sizeof(full) && access(full, X_OK) == 0)
			return open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		path += len + (path[len] == ':');
	}
	return -1;
}

static void ask_for(struct kp_store *store, const char *name, unsigned depth)
{
	_cleanup_(kp_closep) int fd = open_program(name);
	uint8_t build_id[KP_CACHE_ID_MAX];
	char interpreter[PATH_MAX];

	if (fd < 0)
		return;
	kp_store_file(store, fd, name, build_id, kp_build_id_read(fd, build_id, sizeof(build_id)));
	kp_interpreter_read(fd, interpreter, sizeof(interpreter));
	if (interpreter[0] == '/' && depth < INTERPRETERS_MAX)
		ask_for(store, interpreter, depth + 1);
}

void kp_prepare_program(struct kp_store *store, const char *name)
{
	if (!store)
		return;
	ask_for(store, name, 0);
	kp_store_wait(store, KP_PREPARE_MS);
}

/* What the commands have in common: cmd.h. */
#include "daemon/cmd/cmd.h"

#include <stdio.h>

void kp_cmd_say(const char *program, const char *line)
{
	fprintf(stderr, "%s: %s\n", program, line);
}

bool kp_cmd_is_help(const struct kp_options *o, enum kp_command command, const char *usage,
		    const char *about)
{
	if (o->help) {
		printf("Usage: %s\n%s\n\n", usage, about);
		kp_options_help(command, stdout);
	} else if (o->version) {
		printf("kitprof %s\n", KP_VERSION);
	}
	return o->help || o->version;
}

/* kitprofd: the daemon. */
#include "daemon/cmd/cmd.h"

int main(int argc, char **argv)
{
	return kp_cmd_daemon(argc, argv);
}

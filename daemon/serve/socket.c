/* The control socket: socket.h. Client and server. */
#include "daemon/serve/socket.h"

#include "common/cleanup.h"
#include "proto/control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BACKLOG 16

static bool is_own_directory(const char *path, struct stat *ret)
{
	return lstat(path, ret) == 0 && S_ISDIR(ret->st_mode) && ret->st_uid == geteuid();
}

static bool is_runtime_directory(const char *path)
{
	struct stat st;

	return path && path[0] == '/' && is_own_directory(path, &st);
}

int kp_socket_default_path(bool create, char *ret, size_t size, struct kp_err *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	unsigned uid = (unsigned)geteuid();
	char dir[64];
	struct stat st;

	snprintf(dir, sizeof(dir), "/run/user/%u", uid);
	if (!is_runtime_directory(runtime))
		runtime = is_runtime_directory(dir) ? dir : NULL;
	if (!runtime) {
		snprintf(dir, sizeof(dir), "/tmp/kitprofd-%u", uid);
		if (create && mkdir(dir, 0700) != 0 && errno != EEXIST)
			return kp_fail_errno(err, "%s", dir);
		if (lstat(dir, &st) == 0 && (!is_own_directory(dir, &st) || (st.st_mode & 077)))
			return kp_fail(
				err, KP_EREFUSED,
				"%s is not a directory of yours alone; set XDG_RUNTIME_DIR or "
				"give --socket",
				dir);
		runtime = dir;
	}
	if ((size_t)snprintf(ret, size, "%s/" KP_CONTROL_SOCKET, runtime) >= size)
		return kp_fail(err, KP_EUSAGE, "%s: the path is too long", runtime);
	return 0;
}

static int make_address(const char *path, struct sockaddr_un *ret, struct kp_err *err)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (!path[0] || strlen(path) >= sizeof(ret->sun_path))
		return kp_fail(err, KP_EUSAGE, "socket %s: a path of 1 to %zu bytes is possible",
			       path, sizeof(ret->sun_path) - 1);
	strcpy(ret->sun_path, path);
	return 0;
}

static int connect_to(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), saved;

	if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return fd;
	saved = errno;
	kp_closep(&fd);
	errno = saved;
	return -1;
}

/* Removes a socket that nobody listens on. What else there is stays. */
static int make_room(const struct sockaddr_un *address, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	struct stat st;

	if (lstat(address->sun_path, &st) != 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return kp_fail(err, KP_EREFUSED, "%s is there and is no socket", address->sun_path);
	fd = connect_to(address);
	if (fd >= 0 || errno != ECONNREFUSED)
		return kp_fail(err, KP_EBUSY, "another kitprofd listens at %s", address->sun_path);
	return unlink(address->sun_path) == 0 ? 0 : kp_fail_errno(err, "%s", address->sun_path);
}

/* The lock on the directory keeps two servers that start at once from removing each other's. */
static int lock_directory(const char *path, int *ret, struct kp_err *err)
{
	const char *slash = strrchr(path, '/');
	char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	*ret = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0 || flock(*ret, LOCK_EX) != 0)
		return kp_fail_errno(err, "socket %s: %s", path, dir);
	return 0;
}

static int bind_privately(int fd, const struct sockaddr_un *address)
{
	mode_t old = umask(0177);
	int r = bind(fd, (const struct sockaddr *)address, sizeof(*address));

	umask(old);
	return r;
}

int kp_listener_init(struct kp_listener *listener, const char *path, struct kp_err *err)
{
	_cleanup_(kp_closep) int lock = -1;
	_cleanup_(kp_closep) int fd = -1;
	struct sockaddr_un address;
	int r = make_address(path, &address, err);

	listener->fd = -1;
	if (r == 0)
		r = lock_directory(path, &lock, err);
	if (r == 0)
		r = make_room(&address, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind_privately(fd, &address) != 0 || listen(fd, BACKLOG) != 0 ||
	    lstat(path, &listener->made) != 0)
		return kp_fail_errno(err, "socket %s", path);
	strcpy(listener->path, path);
	listener->fd = kp_take_fd(&fd);
	return 0;
}

void kp_listener_deinit(struct kp_listener *listener)
{
	struct stat st;

	if (listener->fd < 0)
		return;
	if (lstat(listener->path, &st) == 0 && st.st_ino == listener->made.st_ino &&
	    st.st_dev == listener->made.st_dev)
		unlink(listener->path);
	close(listener->fd);
	listener->fd = -1;
}

int kp_socket_connect(const char *path, int *ret_fd, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	struct sockaddr_un address;
	int r = make_address(path, &address, err);
	uid_t uid;

	if (r < 0)
		return r;
	fd = connect_to(&address);
	if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED))
		return kp_fail(err, KP_EGONE, "no kitprofd is listening at %s: start `kitprofd`",
			       path);
	if (fd < 0)
		return kp_fail_errno(err, "kitprofd at %s cannot be asked", path);
	if (!kp_socket_is_peer_allowed(fd, &uid) && geteuid() != 0)
		return kp_fail(err, KP_EREFUSED, "the kitprofd at %s is not yours but of uid %u",
			       path, (unsigned)uid);
	*ret_fd = kp_take_fd(&fd);
	return 0;
}

bool kp_socket_is_peer_allowed(int fd, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	*ret_uid = (uid_t)-1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	*ret_uid = peer.uid;
	return peer.uid == 0 || peer.uid == geteuid();
}

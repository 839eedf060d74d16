/*
 * The error value. An error is told once, where it happened, in words for the user; on its way up
 * it is passed unchanged. The int that a function returns steers, struct kp_err speaks:
 *
 *	  0	done
 *	< 0	failure: -KP_E..., passed up unchanged, *err is filled in
 *	> 0	an outcome that the function's header documents, handled by the caller
 *
 * A kp_err lives on somebody's stack: nothing is allocated, nothing is to be freed.
 */
#pragma once

enum kp_err_code {
	KP_ESYSTEM = 1, /* the system refused: errno's text is in the message */
	KP_ENOMEM, /* out of memory */
	KP_EUSAGE, /* the command line is wrong */
	KP_EBADDATA, /* bytes from a file, a socket or a target are not what they claim to be */
	KP_EREFUSED, /* kitprof will not do this to that target; nothing was touched */
	KP_EGONE, /* the process or thread does not exist (any more) */
	KP_EBUSY, /* a thread could not be stopped in time; nothing was touched */
};

struct kp_err {
	enum kp_err_code code;
	char text[512];
};

/*
 * Fills *err (if not NULL) and returns -code, so that a failure is one line:
 * return kp_fail(err, KP_EBADDATA, "%s: ...", path). Text that does not fit is cut.
 */
int kp_fail(struct kp_err *err, enum kp_err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));

/* As kp_fail() with KP_ESYSTEM, and ": " + strerror(errno) behind the text. Keeps errno. */
int kp_fail_errno(struct kp_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/* Out of memory, always the same words. */
int kp_fail_nomem(struct kp_err *err) __attribute__((cold));

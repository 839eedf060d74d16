/*
 * Limits of the control socket, on which kitprof talks to kitprofd: docs/control.md. A request and
 * an answer are one line each, a JSON object; daemon/serve/message.h puts them into bytes.
 */
#pragma once

#define KP_CONTROL_VERSION 1 /* of the messages; new fields alone do not change it */
#define KP_CONTROL_SOCKET "kitprofd.sock"

#define KP_CONTROL_REQUEST_MAX 16384u /* bytes of a line, newline included */
#define KP_CONTROL_ANSWER_MAX (1u << 20)
#define KP_CONTROL_NESTING_MAX 6 /* objects and arrays inside each other */
#define KP_CONTROL_OPTIONS_MAX 64 /* words of a command line */
#define KP_CONTROL_SESSIONS_MAX 64 /* at a time */
#define KP_CONTROL_HISTORY_MAX 32 /* sessions that have ended and are remembered */
#define KP_CONTROL_FILES_MAX 20 /* of one session */

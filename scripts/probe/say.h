/* What nxrun's checks say on standard error. Any length of path; one line whatever is in it. */
#ifndef PROBE_SAY_H
#define PROBE_SAY_H

void probe_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

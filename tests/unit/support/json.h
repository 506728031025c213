/* Enough of JSON to check a report: is it well-formed, and what number stands where. */
#ifndef JSON_H
#define JSON_H

#include <stdint.h>

void json_assert(const char *text); /* one value and nothing behind it */

/* The number behind `"key": `, the first after the place where `section` stands. */
uint64_t json_number(const char *json, const char *section, const char *key);

#endif

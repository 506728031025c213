/* Settings from the environment: SIMCUDA_ and a name. A value that a setting cannot have is told in one line on stderr, and
 * is as good as none. No locks; for constructors and after. */
#ifndef SIM_SETTING_H
#define SIM_SETTING_H

#include <stdbool.h>
#include <stdint.h>

enum sim_setting {
#define SETTING(name, accepted) SIM_SETTING_##name,
#include "setting.def"
    SIM_SETTING_COUNT
};

/* The text, borrowed; NULL when it is not set, or set to nothing. */
const char *sim_setting_text(enum sim_setting);
/* Says what it may be instead of what it is. */
void sim_setting_refuse(enum sim_setting);
bool sim_setting_bool(enum sim_setting, bool otherwise);
uint64_t sim_setting_bytes(enum sim_setting, uint64_t otherwise);
uint64_t sim_setting_number(enum sim_setting, uint64_t otherwise, uint64_t least, uint64_t most);
/* A fact's, by the fact's name in small letters. */
int sim_setting_fact(const char *fact, int otherwise);

/* Bytes at the beginning of the text, and where they end; false when there are none. */
bool sim_setting_parse_bytes(const char *text, const char **ret_end, uint64_t *ret_bytes);

#endif

/* nxmem-probe: what nxrun has to know before it starts a program.
 *
 *   nxmem-probe --version                          the version this was built as
 *   nxmem-probe --options                          the options as a table (option_table.h)
 *   nxmem-probe --almost NAME                      the option that NAME almost is
 *   nxmem-probe [--show] --plugin VALUE DIRECTORY MECHANISM     does it load? (MECHANISM may be "")
 *   nxmem-probe [--show] --program PATH                         can it be preloaded?
 *
 * Exit status: 0, 2 for a plugin or a command line that will not do, 126 and 127 as a shell's.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "option_table.h"
#include "plugin.h"
#include "program.h"

int main(int count, char **words) {
    bool show = count > 1 && strcmp(words[1], "--show") == 0;
    char **arguments = words + 1 + show;
    int left = count - 1 - show;
    if (left == 1 && strcmp(arguments[0], "--version") == 0) {
        puts(NXM_VERSION);
        return 0;
    }
    if (left == 1 && strcmp(arguments[0], "--options") == 0) {
        probe_print_options();
        return 0;
    }
    if (left == 2 && strcmp(arguments[0], "--almost") == 0) return probe_print_almost(arguments[1]) ? 0 : 2;
    if (left == 4 && strcmp(arguments[0], "--plugin") == 0)
        return probe_plugin(arguments[1], arguments[2], *arguments[3] ? arguments[3] : NULL, show) ? 0 : 2;
    if (left == 2 && strcmp(arguments[0], "--program") == 0) return probe_program(arguments[1], show);
    fputs("nxmem-probe: part of nxrun; see nxrun(1)\n", stderr);
    return 2;
}

/* What is ours alone, though another file of ours holds it: reached directly, where the compiler would otherwise ask the loader for
 * its address each time (-fvisibility=hidden says it of what is defined, not of what is used). Owns nothing. */
#ifndef NXM_HERE_H
#define NXM_HERE_H

#define NXM_HERE __attribute__((visibility("hidden")))

#endif

/* Libraries whose frames differ in size where all else is the same: what one's rules say is wrong for the other. */
__attribute__((visibility("default"))) void place_call(void (*callback)(void))
{
    volatile char locals[PLACE_LOCALS];

    locals[0] = 1;
    __asm__ volatile("" : : "r"(locals) : "memory"); /* all of them are needed */
    callback();
    locals[1] = locals[0];
}

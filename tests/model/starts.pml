/* The bits that say where blocks start (core/starts.h): two granules of one word, each in a shard of its own, whose blocks come
 * and go; readers that clear the bit of a granule without a block, and what is above it.
 *
 * Whoever has inserted a block and let go of its shard must find the bit, and the one above it, for as long as the block is there.
 */
bool shard[2];   /* their locks */
bool leaf;       /* the lock of the bits */
bool block[2];   /* a record starts in the granule */
bool bit_[2];    /* of the word */
bool above;      /* the word is not empty */
bool reach;      /* how far: nobody may forget it while there is a block */
bool last_[2];   /* of its shard the block that went last: its start is still noted, whoever comes back need not look */

#define OPERATIONS 3

proctype owner(byte mine)
{
    byte left = OPERATIONS;

    do
    :: left > 0 ->
        left--;
        atomic { !shard[mine] -> shard[mine] = true };
        if
        :: last_[mine] /* it comes back: nothing is looked at */
        :: bit_[mine] && reach /* that is there already: nothing is written */
        :: else ->
            atomic { !leaf -> leaf = true };
            reach = true;
            above = true;
            bit_[mine] = true;
            leaf = false
        fi;
        block[mine] = true;
        last_[mine] = false;
        shard[mine] = false;
        /* it lives */
        assert(bit_[mine]);
        assert(above);
        assert(reach);
        atomic { !shard[mine] -> shard[mine] = true };
        block[mine] = false;
        last_[mine] = true;
        shard[mine] = false
    :: left == 0 -> break
    od
}

/* One that looks for a block around an address, and meets both granules. */
proctype reader()
{
    byte at = 0;

    do
    :: at < 2 ->
        if
        :: above && bit_[at] ->
            if
            :: !block[at] ->
                atomic { !shard[at] -> shard[at] = true };
                if
                :: !block[at] ->
                    last_[at] = false;
                    atomic { !leaf -> leaf = true };
                    bit_[at] = false;
                    if
                    :: !bit_[0] && !bit_[1] -> reach = false; above = false
                    :: else
                    fi;
                    leaf = false
                :: else
                fi;
                shard[at] = false
            :: else
            fi
        :: else
        fi;
        at++
    :: at == 2 -> break
    od
}

init {
    atomic {
        run owner(0);
        run owner(1);
        run reader();
        run reader()
    }
}

/* One shard of the live-block table (core/shard.h, core/spin.h): writers that hold its lock, a reader that does not, chains that
 * are moved one by one to twice as many, and an array of chains that goes on to another shard.
 *
 * Every load and store of what is shared is a step of its own, in the order of the code; what only the holder of the lock reads is
 * not. Addresses 1 to 3: 1 is there all the time, and its readers must find it; 2 and 3 come and go in recycled records, and who finds
 * one must find what was written for it. The old array has one chain for all of them, the new one two.
 */
#define ADDRESSES 3
#define RECORDS 3 /* of this shard; one more is another shard's */
#ifndef WRITERS
#define WRITERS 1
#define OPERATIONS 3
#endif
#ifndef WANTED
#define WANTED 1
#endif
#define TRIES 2

byte turns;           /* odd: taken */
byte head[3];         /* 0: the old array's; 1, 2: the new one's. Record + 1 */
bool grown;           /* chains == the new array */
bool has_old;
bool moved;           /* the one chain of the old array has been */
bool given;           /* the old array is another shard's */
byte address[RECORDS + 1], first_word[RECORDS + 1], last_word[RECORDS + 1], next[RECORDS + 1];
byte free_head;
byte written;         /* what is written into records differs each time */

#define NEW_CHAIN(a) (1 + ((a) & 1))

inline move_chain()
{
    record = head[0];
    do
    :: record != 0 ->
        follower = next[record - 1];
        next[record - 1] = head[NEW_CHAIN(address[record - 1])];
        head[NEW_CHAIN(address[record - 1])] = record;
        record = follower
    :: else -> break
    od;
    head[0] = 0;
    moved = true;
    has_old = false;
    given = true
}

inline chain_of(a, ret_chain)
{
    if
    :: has_old && !moved -> ret_chain = 0
    :: (!has_old || moved) && grown -> ret_chain = NEW_CHAIN(a)
    :: (!has_old || moved) && !grown -> ret_chain = 0
    fi
}

/* What the holder of the lock finds: `before` is the record that leads to it, or 0. It goes by what it saw of the chains before it
 * had the lock, if that is how they are. */
inline seek(a)
{
    d_step {
        chain_of(a, right);
        if
        :: seen == grown && !has_old -> chain = (seen -> NEW_CHAIN(a) : 0)
        :: else -> chain = right
        fi;
        assert(chain == right);
        before = 0;
        record = head[chain];
        do
        :: record != 0 && address[record - 1] != a -> before = record; record = next[record - 1]
        :: else -> break
        od
    }
}

inline insert(a)
{
    record = free_head;
    free_head = next[record - 1];
    written = written + 1;
    address[record - 1] = a;
    first_word[record - 1] = 16 * a + written;
    last_word[record - 1] = 16 * a + written;
    next[record - 1] = head[chain];
    head[chain] = record
}

inline remove()
{
    if
    :: before == 0 -> head[chain] = next[record - 1]
    :: else -> next[before - 1] = next[record - 1]
    fi;
    next[record - 1] = free_head;
    free_head = record
}

proctype writer()
{
    byte left = OPERATIONS, record, follower, before, chain, right, a;
    bool seen;

    do
    :: left > 0 ->
        left--;
        seen = grown;
        atomic { turns % 2 == 0 -> turns++ };
        if
        :: !grown && !has_old -> moved = false; has_old = true; grown = true /* it grows */
        :: has_old -> move_chain()
        :: true
        fi;
        if
        :: a = 2
        :: a = 3
        fi;
        seek(a);
        if
        :: record == 0 && free_head != 0 -> insert(a)
        :: record != 0 -> remove()
        :: else
        fi;
        d_step { record = 0; follower = 0; before = 0; chain = 0; right = 0; a = 0; seen = false };
        turns++
    :: left == 0 -> break
    od
}

/* Whoever has the old array next chains a record of its own there. */
proctype another_shard()
{
end:
    given;
    head[0] = RECORDS + 1;
    head[0] = 0;
    head[0] = RECORDS + 1
}

proctype reader(byte wanted)
{
    byte left = TRIES, looked, link, found, first, last;
    bool new_ones, old_ones;

again:
    if
    :: left == 0 -> goto gives_up /* it takes the lock: there is nothing more to see */
    :: else -> left--
    fi;
    looked = turns;
    new_ones = grown;
    old_ones = has_old;
    if
    :: old_ones ->
        if
        :: !moved -> link = head[0]
        :: else -> link = (new_ones -> head[NEW_CHAIN(wanted)] : head[0])
        fi
    :: else -> link = (new_ones -> head[NEW_CHAIN(wanted)] : head[0])
    fi;
    do
    :: link == 0 -> break
    :: link != 0 ->
        found = address[link - 1];
        if
        :: found == wanted -> break
        :: else
        fi;
        if
        :: turns != looked -> goto again
        :: else -> link = next[link - 1]
        fi
    od;
    if
    :: link != 0 -> first = first_word[link - 1]; last = last_word[link - 1]
    :: else
    fi;
    if
    :: (looked & 1) == 1 || turns != looked -> goto again
    :: else
    fi;
    assert(link != 0 || wanted != 1);
    assert(link == 0 || (first == last && first / 16 == wanted));
gives_up:
    skip
}

init {
    d_step {
        address[0] = 1; first_word[0] = 16; last_word[0] = 16; next[0] = 0;
        head[0] = 1;
        next[1] = 3; next[2] = 0; free_head = 2;
        address[RECORDS] = 9
    };
    atomic {
        run writer();
        if
        :: WRITERS > 1 -> run writer()
        :: else
        fi;
        run another_shard();
        run reader(WANTED)
    }
}

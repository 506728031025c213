/* make-whisper FILE: writes the smallest model of whisper.cpp's own format that it loads, for runs that need a real model file and
 * no sense: sizes, mel filters and a few words, but no tensors, which whisper.cpp takes for a model to test with and gives their
 * memory all the same. The format, little-endian: magic, eleven sizes, the filters, the words. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* English only; four layers, the number by which it knows a "tiny" one. */
enum { VOCABULARY = 51864, AUDIO = 1500, STATE = 64, HEADS = 2, LAYERS = 4, TEXT = 448, MELS = 80, FREQUENCIES = 201, FLOATS_32 = 0 };

static void put_u32(FILE *f, uint32_t value)
{
    fwrite(&value, sizeof value, 1, f);
}

static void write_sizes(FILE *f)
{
    static const uint32_t sizes[] = {VOCABULARY, AUDIO, STATE, HEADS, LAYERS, TEXT, STATE, HEADS, LAYERS, MELS, FLOATS_32};

    put_u32(f, 0x67676d6c);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        put_u32(f, sizes[i]);
}

static void write_filters(FILE *f)
{
    put_u32(f, MELS);
    put_u32(f, FREQUENCIES);
    for (int i = 0; i < MELS * FREQUENCIES; i++)
        put_u32(f, 0); /* 0.0F */
}

/* The blank must be there; what is missing behind them it makes up. */
static void write_words(FILE *f)
{
    static const char *const words[] = {" ", " -", " '", " the"};
    enum { WORDS = sizeof words / sizeof words[0] };

    put_u32(f, WORDS);
    for (int i = 0; i < WORDS; i++) {
        put_u32(f, (uint32_t)strlen(words[i]));
        fwrite(words[i], 1, strlen(words[i]), f);
    }
}

int main(int argc, char **argv)
{
    FILE *f;
    bool written;

    if (argc != 2) {
        fputs("usage: make-whisper FILE\n", stderr);
        return 2;
    }
    f = fopen(argv[1], "wb");
    if (!f) {
        perror(argv[1]);
        return 1;
    }
    write_sizes(f);
    write_filters(f);
    write_words(f);
    written = !ferror(f);
    if (fclose(f) != 0 || !written) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}

/* make-gguf FILE: writes a tiny model in the GGUF format, version 3, for runs that need a real model file and no sense.
 *
 * Architecture "llama", two layers, 32-bit floats, a vocabulary of the 256 bytes and a few words. The weights are small
 * pseudo-random numbers from a fixed seed, so that every run writes the same file. The format, little-endian: magic,
 * version, counts; metadata pairs; tensor descriptions (name, shape, type, offset); padding; tensor data. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBED = 256, FEED_FORWARD = 512, LAYERS = 2, HEADS = 4, CONTEXT = 512 };
enum { ALIGNMENT = 32, VERSION = 3, TENSOR_F32 = 0 };
enum value_type { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_STRING = 8, VALUE_ARRAY = 9 };
enum token_type { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

static const char *const words[] = {"", "the", "a", "of", "and", "to", "in", "one", "two", "sun", "sea", "falls"};
enum { WORDS = sizeof words / sizeof words[0], SPECIAL = 3, BYTES = 256, LETTERS = 26 };
enum { VOCABULARY = SPECIAL + BYTES + WORDS + LETTERS };

/* --- primitive writers: a failed write shows in ferror at the end --- */

static void put_u32(FILE *f, uint32_t value)
{
    fwrite(&value, sizeof value, 1, f);
}

static void put_u64(FILE *f, uint64_t value)
{
    fwrite(&value, sizeof value, 1, f);
}

static void put_f32(FILE *f, float value)
{
    fwrite(&value, sizeof value, 1, f);
}

static void put_string(FILE *f, const char *text)
{
    put_u64(f, strlen(text));
    fwrite(text, 1, strlen(text), f);
}

static void pad(FILE *f)
{
    while (ftell(f) % ALIGNMENT)
        fputc(0, f);
}

/* --- metadata --- */

static void pair_u32(FILE *f, const char *key, uint32_t value)
{
    put_string(f, key);
    put_u32(f, VALUE_U32);
    put_u32(f, value);
}

static void pair_f32(FILE *f, const char *key, float value)
{
    put_string(f, key);
    put_u32(f, VALUE_F32);
    put_f32(f, value);
}

static void pair_string(FILE *f, const char *key, const char *value)
{
    put_string(f, key);
    put_u32(f, VALUE_STRING);
    put_string(f, value);
}

static void array_begin(FILE *f, const char *key, enum value_type type, uint64_t count)
{
    put_string(f, key);
    put_u32(f, VALUE_ARRAY);
    put_u32(f, type);
    put_u64(f, count);
}

struct token {
    char text[16];
    float score;
    enum token_type type;
};

/* A SentencePiece vocabulary: words begin with U+2581 for the space before them, which is a token of its own too (the
 * empty word); single letters spell what is no word, at a worse score. */
static struct token token_at(int index)
{
    static const struct token special[SPECIAL] = {
        {"<unk>", 0, TOKEN_UNKNOWN}, {"<s>", 0, TOKEN_CONTROL}, {"</s>", 0, TOKEN_CONTROL}};
    struct token token = {.type = TOKEN_NORMAL};

    if (index < SPECIAL)
        return special[index];
    index -= SPECIAL;
    if (index < BYTES) {
        token.type = TOKEN_BYTE;
        snprintf(token.text, sizeof token.text, "<0x%02X>", (unsigned)index);
        return token;
    }
    index -= BYTES;
    if (index < WORDS) {
        snprintf(token.text, sizeof token.text, "\xe2\x96\x81%s", words[index]);
        token.score = (float)-index;
        return token;
    }
    index -= WORDS;
    snprintf(token.text, sizeof token.text, "%c", 'a' + index);
    token.score = (float)(-100 - index);
    return token;
}

static void write_vocabulary(FILE *f)
{
    array_begin(f, "tokenizer.ggml.tokens", VALUE_STRING, VOCABULARY);
    for (int i = 0; i < VOCABULARY; i++) {
        struct token token = token_at(i);

        put_string(f, token.text);
    }
    array_begin(f, "tokenizer.ggml.scores", VALUE_F32, VOCABULARY);
    for (int i = 0; i < VOCABULARY; i++)
        put_f32(f, token_at(i).score);
    array_begin(f, "tokenizer.ggml.token_type", VALUE_I32, VOCABULARY);
    for (int i = 0; i < VOCABULARY; i++)
        put_u32(f, token_at(i).type);
}

enum { PAIRS = 19 };

static void write_metadata(FILE *f)
{
    pair_string(f, "general.architecture", "llama");
    pair_string(f, "general.name", "tiny");
    pair_u32(f, "general.file_type", 0);
    pair_u32(f, "general.alignment", ALIGNMENT);
    pair_u32(f, "llama.vocab_size", VOCABULARY);
    pair_u32(f, "llama.context_length", CONTEXT);
    pair_u32(f, "llama.embedding_length", EMBED);
    pair_u32(f, "llama.block_count", LAYERS);
    pair_u32(f, "llama.feed_forward_length", FEED_FORWARD);
    pair_u32(f, "llama.attention.head_count", HEADS);
    pair_u32(f, "llama.attention.head_count_kv", HEADS);
    pair_u32(f, "llama.rope.dimension_count", EMBED / HEADS);
    pair_f32(f, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    pair_string(f, "tokenizer.ggml.model", "llama");
    pair_u32(f, "tokenizer.ggml.bos_token_id", 1);
    pair_u32(f, "tokenizer.ggml.eos_token_id", 2);
    write_vocabulary(f);
}

/* --- tensors --- */

struct tensor {
    char name[64];
    uint64_t rows, columns; /* columns 0: a vector */
};

static const struct {
    const char *name;
    uint64_t rows, columns;
} layer_tensors[] = {
    {"attn_norm", EMBED, 0},       {"attn_q", EMBED, EMBED},   {"attn_k", EMBED, EMBED},
    {"attn_v", EMBED, EMBED},      {"attn_output", EMBED, EMBED}, {"ffn_norm", EMBED, 0},
    {"ffn_gate", EMBED, FEED_FORWARD}, {"ffn_up", EMBED, FEED_FORWARD}, {"ffn_down", FEED_FORWARD, EMBED},
};
enum { PER_LAYER = sizeof layer_tensors / sizeof layer_tensors[0], TENSORS = LAYERS * PER_LAYER + 3 };

static struct tensor tensor_at(int index)
{
    static const struct tensor outer[] = {{"token_embd.weight", EMBED, VOCABULARY},
                                          {"output_norm.weight", EMBED, 0},
                                          {"output.weight", EMBED, VOCABULARY}};
    struct tensor tensor;
    int which;

    if (index >= LAYERS * PER_LAYER)
        return outer[index - LAYERS * PER_LAYER];
    which = index % PER_LAYER;
    snprintf(tensor.name, sizeof tensor.name, "blk.%d.%s.weight", index / PER_LAYER, layer_tensors[which].name);
    tensor.rows = layer_tensors[which].rows;
    tensor.columns = layer_tensors[which].columns;
    return tensor;
}

static uint64_t tensor_elements(const struct tensor *tensor)
{
    return tensor->rows * (tensor->columns ? tensor->columns : 1);
}

static void describe_tensors(FILE *f)
{
    uint64_t offset = 0;

    for (int i = 0; i < TENSORS; i++) {
        struct tensor tensor = tensor_at(i);

        put_string(f, tensor.name);
        put_u32(f, tensor.columns ? 2 : 1);
        put_u64(f, tensor.rows);
        if (tensor.columns)
            put_u64(f, tensor.columns);
        put_u32(f, TENSOR_F32);
        put_u64(f, offset);
        offset += (tensor_elements(&tensor) * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/* xorshift32: even numbers in [-0.05, 0.05). */
static float next_weight(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)*state / 4294967296.0F * 0.1F - 0.05F;
}

static void write_tensors(FILE *f)
{
    uint32_t state = 2463534242U;

    for (int i = 0; i < TENSORS; i++) {
        struct tensor tensor = tensor_at(i);
        bool is_norm = tensor.columns == 0;

        for (uint64_t n = tensor_elements(&tensor); n; n--)
            put_f32(f, is_norm ? 1.0F : next_weight(&state));
        pad(f);
    }
}

static bool write_model(FILE *f)
{
    fwrite("GGUF", 1, 4, f);
    put_u32(f, VERSION);
    put_u64(f, TENSORS);
    put_u64(f, PAIRS);
    write_metadata(f);
    describe_tensors(f);
    pad(f);
    write_tensors(f);
    return !ferror(f);
}

int main(int argc, char **argv)
{
    FILE *f;
    bool written;

    if (argc != 2) {
        fputs("usage: make-gguf FILE\n", stderr);
        return 2;
    }
    f = fopen(argv[1], "wb");
    if (!f) {
        perror(argv[1]);
        return 1;
    }
    written = write_model(f);
    if (fclose(f) != 0 || !written) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}

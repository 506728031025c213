#include "driver.h"

#include <stddef.h>

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "errors.def"
#undef ERROR
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].text[0] ? errors[i].text : errors[i].name;
    return "unrecognized error code";
}

/* Copies to and from variables of the program, named by their host shadow. */
#include "../state.h"

#include <stddef.h>

static cudaError_t place(const void *symbol, size_t count, size_t offset, char **ret_pointer)
{
    size_t size;
    void *start;
    cudaError_t error = cudaGetSymbolAddress(&start, symbol);

    if (!error)
        error = cudaGetSymbolSize(&size, symbol);
    if (!error && (offset > size || count > size - offset))
        error = cudaErrorInvalidValue;
    if (!error)
        *ret_pointer = (char *)start + offset;
    return error;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    char *dst;
    cudaError_t error = place(symbol, count, offset, &dst);

    return error ? rt_record(error) : cudaMemcpy(dst, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
    char *src;
    cudaError_t error = place(symbol, count, offset, &src);

    return error ? rt_record(error) : cudaMemcpy(dst, src, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *dst;
    cudaError_t error = place(symbol, count, offset, &dst);

    return error ? rt_record(error) : cudaMemcpyAsync(dst, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *src;
    cudaError_t error = place(symbol, count, offset, &src);

    return error ? rt_record(error) : cudaMemcpyAsync(dst, src, count, kind, stream);
}

/* Links CUDA, asks for nothing: under the shim it must stay silent. */
#include "transcript.h"

int main(void)
{
    int version = 0;

    SHOW(cuDriverGetVersion(&version));
    return 0;
}

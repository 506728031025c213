/* Memory shared by two processes: the child gets a handle through a pipe, reads what the parent wrote, writes what the
 * parent reads. CUDA is first used after the fork. */
#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 100000 };

static int child(int from_parent, int to_parent)
{
    cudaIpcMemHandle_t handle;
    char *host = malloc(BYTES), *device;

    if (!host || read(from_parent, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return 1;
    CHECK(cudaIpcOpenMemHandle((void **)&device, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++)
        EXPECT(host[i] == 1);
    CHECK(cudaMemset(device, 2, BYTES / 2));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(device));
    free(host);
    printf("ipc: the child read %d bytes and wrote half of them\n", BYTES);
    fflush(stdout);
    return write(to_parent, "d", 1) == 1 ? 0 : 1;
}

static void parent(int to_child, int from_child)
{
    cudaIpcMemHandle_t handle;
    char *host = malloc(BYTES), *device, word;

    EXPECT(host != NULL);
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaMemset(device, 1, BYTES));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&handle, device));
    EXPECT(write(to_child, &handle, sizeof handle) == (ssize_t)sizeof handle);
    EXPECT(read(from_child, &word, 1) == 1);
    CHECK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[0] == 2 && host[BYTES / 2 - 1] == 2 && host[BYTES / 2] == 1 && host[BYTES - 1] == 1);
    CHECK(cudaFree(device));
    free(host);
}

int main(void)
{
    int down[2], up[2], status = -1;
    pid_t pid;

    EXPECT(pipe(down) == 0 && pipe(up) == 0);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        return child(down[0], up[1]);
    parent(down[1], up[0]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("ipc: the parent saw it");
    return 0;
}

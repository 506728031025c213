/* A pool shared by two processes: the file descriptor goes through a socket, the block and an event by their handles. The
 * child waits for the event, reads what the parent's stream wrote, writes half of it, and gives its import back. */
#include "check.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

struct message {
    struct cudaMemPoolPtrExportData block;
    cudaIpcEventHandle_t written;
};

static void send_all(int socket, int fd, const struct message *message)
{
    char room[CMSG_SPACE(sizeof fd)];
    struct iovec data = {(void *)message, sizeof *message};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);

    memset(room, 0, sizeof room);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(control), &fd, sizeof fd);
    EXPECT(sendmsg(socket, &header, 0) == (ssize_t)sizeof *message);
}

static int receive_all(int socket, struct message *ret_message)
{
    char room[CMSG_SPACE(sizeof(int))];
    struct iovec data = {ret_message, sizeof *ret_message};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd;

    EXPECT(recvmsg(socket, &header, 0) == (ssize_t)sizeof *ret_message);
    EXPECT(CMSG_FIRSTHDR(&header) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    return fd;
}

static int child(int socket)
{
    struct message message;
    int fd = receive_all(socket, &message);
    unsigned char *host, *block;
    cudaMemPool_t pool;
    cudaStream_t stream;
    cudaEvent_t written;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(size_t)fd, cudaMemHandleTypePosixFileDescriptor, 0));
    CHECK(cudaMemPoolImportPointer((void **)&block, pool, &message.block));
    CHECK(cudaIpcOpenEventHandle(&written, message.written));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaStreamWaitEvent(stream, written, 0));
    CHECK(cudaMemcpyAsync(host, block, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemsetAsync(block, 2, BYTES / 2, stream));
    CHECK(cudaFreeAsync(block, stream)); /* the import; the block is the parent's */
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[0] == 1 && host[BYTES - 1] == 1);
    CHECK(cudaFreeHost(host));
    CHECK(cudaEventDestroy(written));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
    close(fd);
    puts("ipc-pool: the child read the block and wrote half of it");
    fflush(stdout);
    return write(socket, "d", 1) == 1 ? 0 : 1;
}

static void parent(int socket)
{
    struct cudaMemPoolProps props;
    struct message message;
    unsigned char *host, *block;
    cudaMemPool_t pool;
    cudaStream_t stream;
    cudaEvent_t written;
    char word;
    int fd = -1;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    CHECK(cudaMallocFromPoolAsync((void **)&block, BYTES, pool, stream));
    CHECK(cudaMemsetAsync(block, 1, BYTES, stream));
    CHECK(cudaEventRecord(written, stream));
    CHECK(cudaMemPoolExportPointer(&message.block, block));
    CHECK(cudaIpcGetEventHandle(&message.written, written));
    send_all(socket, fd, &message);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(read(socket, &word, 1) == 1);
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaMemcpyAsync(host, block, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(block, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[0] == 2 && host[BYTES / 2 - 1] == 2 && host[BYTES / 2] == 1 && host[BYTES - 1] == 1);
    CHECK(cudaFreeHost(host));
    CHECK(cudaEventDestroy(written));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
    close(fd);
}

int main(void)
{
    int sockets[2], status = -1;
    pid_t pid;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        close(sockets[0]);
        return child(sockets[1]);
    }
    close(sockets[1]);
    parent(sockets[0]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("ipc-pool: the parent saw it");
    return 0;
}

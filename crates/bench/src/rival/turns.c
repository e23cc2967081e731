/*
 * Two processes that change an array in turns, by other means than a shared variable: the rivals of
 * `hikyaku bench shared`.
 *
 *   turns mutex SOCKET                   a robust pthread mutex in shared memory, by polling
 *   turns redis SERVER FOLDER SOCKET     lists of a Redis server on loopback, by blocking pops
 *
 * A repetition of the command "shared-turns" is one turn of each. The server is started here, in
 * FOLDER, and ends with this program.
 */
#include "pair.h"

#include <gnu/libc-version.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/mman.h>

enum { BYTES_LIMIT = 1 << 24 };

/* What both processes see. The array begins with a number: whose turn it is. */
struct both {
    pthread_mutex_t mutex;
    _Alignas(4096) unsigned long long array[BYTES_LIMIT / 8];
};

static struct both *both;
static unsigned long long own[BYTES_LIMIT / 8];

/* ---- A mutex --------------------------------------------------------------------------------- */

static void make_mutex(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (pthread_mutex_init(&both->mutex, &attributes) != 0) fail("pthread_mutex_init");
    snprintf(library, sizeof library, "robust mutex of glibc %s", gnu_get_libc_version());
}

static void turn_by_mutex(size_t bytes) {
    for (;;) {
        if (pthread_mutex_lock(&both->mutex) != 0) exit(1); /* the other has died */
        unsigned long long number = both->array[0];
        int mine = number % 2 == (unsigned)rank;
        if (mine) {
            own[0] = number + 1;
            memcpy(both->array, own, bytes);
        }
        pthread_mutex_unlock(&both->mutex);
        if (mine) return;
    }
}

/* ---- Redis ----------------------------------------------------------------------------------- */

static int server = -1;
static char received[1 << 16];
static size_t first, last;

static void put(const void *bytes, size_t count) {
    for (const char *at = bytes; count > 0;) {
        ssize_t done = write(server, at, count);
        if (done <= 0) fail("cannot write to the server");
        at += done;
        count -= (size_t)done;
    }
}

static void put_text(const char *text) { put(text, strlen(text)); }

static void get(char *into, size_t count) {
    while (count > 0) {
        if (first == last) {
            ssize_t done = read(server, received, sizeof received);
            if (done <= 0) fail("cannot read from the server");
            first = 0;
            last = (size_t)done;
        }
        size_t some = last - first < count ? last - first : count;
        memcpy(into, received + first, some);
        into += some;
        first += some;
        count -= some;
    }
}

/* A line of an answer, without its end: what kind it is and a number. */
static long get_line(char kind) {
    char line[128];
    size_t length = 0;
    do {
        if (length == sizeof line) fail("a line of the server's is too long");
        get(line + length, 1);
    } while (line[length++] != '\n');
    line[length - 1] = '\0';
    if (line[0] != kind) {
        fprintf(stderr, "turns: the server said %s\n", line);
        exit(1);
    }
    return strtol(line + 1, NULL, 10);
}

static void get_text(char *into, size_t room) {
    long length = get_line('$');
    char end[2];
    if (length < 0 || (size_t)length > room) fail("an answer of the server's has another length");
    get(into, (size_t)length);
    get(end, sizeof end);
}

/* Puts the array into a rank's list. */
static void push(int to, const void *array, size_t bytes) {
    static char command[BYTES_LIMIT + 64];
    int length = sprintf(command, "*3\r\n$5\r\nRPUSH\r\n$2\r\nq%d\r\n$%zu\r\n", to, bytes);
    memcpy(command + length, array, bytes);
    memcpy(command + length + bytes, "\r\n", 2);
    put(command, (size_t)length + bytes + 2);
    get_line(':');
}

static void turn_by_redis(size_t bytes) {
    char command[64], name[8];
    put(command, (size_t)sprintf(command, "*3\r\n$5\r\nBLPOP\r\n$2\r\nq%d\r\n$1\r\n0\r\n", rank));
    get_line('*');
    get_text(name, sizeof name);
    get_text((char *)own, bytes);
    own[0]++;
    push(1 - rank, own, bytes);
}

/* The first turn is rank 0's. Its list is empty before, or has what the last turn has left. */
static void begin_by_redis(size_t bytes) {
    if (rank != 0) return;
    put_text("*2\r\n$3\r\nDEL\r\n$2\r\nq0\r\n");
    get_line(':');
    push(0, own, bytes);
}

static struct sockaddr_in loopback(in_port_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A port that is free now. */
static in_port_t free_port(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        fail("there is no port on loopback");
    close(fd);
    return address.sin_port;
}

static pid_t start_server(const char *program, const char *folder, in_port_t port) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    char number[8];
    snprintf(number, sizeof number, "%u", (unsigned)ntohs(port));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(program, program, "--port", number, "--bind", "127.0.0.1", "--save", "", "--appendonly",
          "no", "--dir", folder, "--daemonize", "no", (char *)NULL);
    fail(program);
    return -1;
}

static void connect_to_server(in_port_t port, pid_t pid) {
    struct sockaddr_in address = loopback(port);
    const struct timespec soon = {0, 10000000};
    for (int look = 0; look < 1000; look++) {
        server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(server, (struct sockaddr *)&address, sizeof address) == 0) {
            int yes = 1;
            setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            return;
        }
        close(server);
        if (pid > 0 && waitpid(pid, NULL, WNOHANG) != 0) break;
        nanosleep(&soon, NULL);
    }
    fail("the server does not start");
}

static void ask_version(void) {
    char answer[16384], version[32] = "";
    put_text("*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
    memset(answer, 0, sizeof answer);
    get_text(answer, sizeof answer - 1);
    const char *found = strstr(answer, "redis_version:");
    if (found) sscanf(found, "redis_version:%31[0-9.]", version);
    snprintf(library, sizeof library, "Redis %s", version);
}

/* ---- The pair -------------------------------------------------------------------------------- */

static in_port_t port;

static void begin(void) {
    if (port) connect_to_server(port, 0);
}

static const char *prepare(const struct command *c) {
    if (strcmp(c->verb, "shared-turns")) return "an unknown command";
    if (c->bytes < 8 || c->bytes > BYTES_LIMIT)
        return "the command asks for more than the program has";
    if (port) begin_by_redis(c->bytes);
    return NULL;
}

static void repeat(const struct command *c) {
    if (port) turn_by_redis(c->bytes);
    else turn_by_mutex(c->bytes);
}

static void finish(const struct command *c) { (void)c; }

int main(int count, char **words) {
    int by_mutex = count == 3 && !strcmp(words[1], "mutex");
    int by_redis = count == 5 && !strcmp(words[1], "redis");
    pid_t store = 0;
    if (!by_mutex && !by_redis) {
        fprintf(stderr, "usage: turns mutex SOCKET | turns redis SERVER FOLDER SOCKET\n");
        return 2;
    }
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) fail("mmap");
    if (by_mutex) make_mutex();
    if (by_redis) {
        port = free_port();
        if ((store = start_server(words[2], words[3], port)) < 0) fail("fork");
        connect_to_server(port, store);
        ask_version();
        close(server);
        first = last = 0;
    }
    int result = run_pair(words[count - 1]);
    if (store > 0 && waitpid(store, NULL, WNOHANG) == 0) {
        kill(store, SIGTERM);
        waitpid(store, NULL, 0);
    }
    return result;
}

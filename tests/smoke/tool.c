/* ranks: 1 2 */
/* SPDX-License-Identifier: MIT */
/* The tool interface: settings and counters, before, in and after MPI. */
#include <pthread.h>

#include "smoke.h"

enum { TEXT = 256, THREADS = 4 };

static int cvar(const char *name)
{
    int i = -1;
    CHECK(MPI_T_cvar_get_index(name, &i) == MPI_SUCCESS);
    return i;
}

static void read_cvar(const char *name, void *out)
{
    MPI_T_cvar_handle h;
    int count;
    CHECK(!MPI_T_cvar_handle_alloc(cvar(name), NULL, &h, &count));
    CHECK(!MPI_T_cvar_read(h, out));
    CHECK(!MPI_T_cvar_handle_free(&h) && h == MPI_T_CVAR_HANDLE_NULL);
}

static int write_cvar(const char *name, const void *value)
{
    MPI_T_cvar_handle h;
    int count;
    CHECK(!MPI_T_cvar_handle_alloc(cvar(name), NULL, &h, &count));
    int code = MPI_T_cvar_write(h, value);
    MPI_T_cvar_handle_free(&h);
    return code;
}

/* Before MPI_Init what is written holds for what MPI_Init starts. */
static void check_settings_early(void)
{
    MPI_Count yields = 17, eager = 4096;
    CHECK(!write_cvar("TBMPI_YIELDS", &yields));
    CHECK(write_cvar("TBMPI_EAGER", &eager) == MPI_T_ERR_CVAR_SET_NEVER);
}

static void check_settings(void)
{
    MPI_Count yields = 0, window;
    double check, quick = 0.125;
    char text[TEXT];
    int word, mine = 9, before;
    read_cvar("TBMPI_YIELDS", &yields);
    CHECK(yields == 17);
    read_cvar("TBMPI_EAGER_WINDOW", &window);
    CHECK(window == 1 << 20);
    read_cvar("TBMPI_CHECK", &check);
    CHECK(check > 0.19 && check < 0.21);
    CHECK(!write_cvar("TBMPI_CHECK", &quick));
    read_cvar("TBMPI_CHECK", &check);
    CHECK(check == quick);
    quick = -1;
    CHECK(write_cvar("TBMPI_CHECK", &quick) == MPI_T_ERR_INVALID);
    read_cvar("TBMPI_COLL", text);
    CHECK(text[0] == '\0');
    read_cvar("TBMPI_COMMONS", &word);
    CHECK(word == 0 || word == 1);
    read_cvar("TBMPI_LOG", &before);
    CHECK(!write_cvar("TBMPI_LOG", &mine));
    read_cvar("TBMPI_LOG", &word);
    CHECK(word == mine);
    CHECK(!write_cvar("TBMPI_LOG", &before));
}

static void check_enum(void)
{
    char name[TEXT];
    int n, value, length = TEXT;
    MPI_T_enum words;
    MPI_Datatype type;
    CHECK(!MPI_T_cvar_get_info(cvar("TBMPI_SINGLE_COPY"), NULL, NULL, NULL,
                               &type, &words, NULL, NULL, NULL, NULL));
    CHECK(type == MPI_INT && words != MPI_T_ENUM_NULL);
    CHECK(!MPI_T_enum_get_info(words, &n, name, &length));
    CHECK(n == 4 && strcmp(name, "TBMPI_SINGLE_COPY") == 0);
    length = TEXT;
    CHECK(!MPI_T_enum_get_item(words, 3, &value, name, &length));
    CHECK(value == 3 && strcmp(name, "always") == 0 && length == 7);
    CHECK(MPI_T_enum_get_item(words, 4, &value, name, &length) ==
          MPI_T_ERR_INVALID_ITEM);
    CHECK(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, name, &length) ==
          MPI_T_ERR_INVALID_HANDLE);
}

static MPI_T_pvar_handle pvar(MPI_T_pvar_session s, const char *name, int class)
{
    int i, count;
    MPI_T_pvar_handle h;
    CHECK(!MPI_T_pvar_get_index(name, class, &i));
    CHECK(!MPI_T_pvar_handle_alloc(s, i, NULL, &h, &count) && count == 1);
    return h;
}

static unsigned long long read_pvar(MPI_T_pvar_session s, MPI_T_pvar_handle h)
{
    unsigned long long value = 99;
    CHECK(!MPI_T_pvar_read(s, h, &value));
    return value;
}

/* To oneself, so that the numbers are exact. */
static void talk(int bytes)
{
    char out[64] = "", in[64];
    MPI_Sendrecv(out, bytes, MPI_CHAR, 0, 0, in, bytes, MPI_CHAR, 0, 0,
                 MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void check_counters(void)
{
    unsigned long long value = 1000;
    MPI_T_pvar_session s;
    CHECK(!MPI_T_pvar_session_create(&s));
    MPI_T_pvar_handle sent =
        pvar(s, "bytes_sent_machine", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle got =
        pvar(s, "messages_received_machine", MPI_T_PVAR_CLASS_COUNTER);
    talk(10);
    CHECK(read_pvar(s, sent) == 0);
    CHECK(!MPI_T_pvar_start(s, MPI_T_PVAR_ALL_HANDLES));
    talk(10);
    talk(20);
    CHECK(read_pvar(s, sent) == 30 && read_pvar(s, got) == 2);
    CHECK(!MPI_T_pvar_stop(s, sent));
    talk(30);
    CHECK(read_pvar(s, sent) == 30 && read_pvar(s, got) == 3);
    CHECK(!MPI_T_pvar_write(s, sent, &value));
    CHECK(!MPI_T_pvar_start(s, sent));
    talk(1);
    CHECK(!MPI_T_pvar_readreset(s, sent, &value));
    CHECK(value == 1001 && read_pvar(s, sent) == 0);
    talk(2);
    CHECK(read_pvar(s, sent) == 2);
    CHECK(!MPI_T_pvar_reset(s, sent) && read_pvar(s, sent) == 0);
    CHECK(!MPI_T_pvar_handle_free(s, &sent));
    CHECK(MPI_T_pvar_handle_free(s, &sent) == MPI_T_ERR_INVALID_HANDLE);
    MPI_T_pvar_session closed = s;
    CHECK(!MPI_T_pvar_session_free(&s) && s == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_start(closed, MPI_T_PVAR_ALL_HANDLES) ==
          MPI_T_ERR_INVALID_SESSION);
}

static void check_queues(void)
{
    char out[40] = "", in[40];
    int flag;
    unsigned long long value;
    MPI_Status status;
    MPI_Request r;
    MPI_T_pvar_session s;
    MPI_T_pvar_session_create(&s);
    MPI_T_pvar_handle n =
        pvar(s, "unexpected_messages", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle b = pvar(s, "unexpected_bytes", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle p = pvar(s, "posted_receives", MPI_T_PVAR_CLASS_LEVEL);
    unsigned long long n0 = read_pvar(s, n), b0 = read_pvar(s, b);
    unsigned long long p0 = read_pvar(s, p);
    MPI_Isend(out, sizeof out, MPI_CHAR, 0, 1, MPI_COMM_SELF, &r);
    for (flag = 0; !flag;)
        MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, &status);
    CHECK(read_pvar(s, n) == n0 + 1 && read_pvar(s, b) == b0 + sizeof out);
    MPI_Recv(in, sizeof in, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(read_pvar(s, n) == n0);
    MPI_Irecv(in, sizeof in, MPI_CHAR, 0, 1, MPI_COMM_SELF, &r);
    CHECK(read_pvar(s, p) == p0 + 1);
    MPI_Cancel(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(MPI_T_pvar_start(s, n) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(s, n) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_readreset(s, n, &value) == MPI_T_ERR_PVAR_NO_WRITE);
    MPI_T_pvar_session_free(&s);
}

/* Each setting and counter is in one category, and the first has the others. */
static void check_categories(void)
{
    int n, cvars, pvars, subs, events, all_c = 0, all_p = 0, i, list[128];
    CHECK(!MPI_T_category_get_num(&n) && n < 128);
    for (int k = 0; k < n; k++) {
        CHECK(!MPI_T_category_get_info(k, NULL, NULL, NULL, NULL, &cvars,
                                       &pvars, &subs));
        CHECK(subs == (k == 0 ? n - 1 : 0));
        CHECK(!MPI_T_category_get_cvars(k, 128, list));
        CHECK(!MPI_T_category_get_pvars(k, 128, list));
        CHECK(!MPI_T_category_get_num_events(k, &events) && events == 0);
        all_c += cvars;
        all_p += pvars;
    }
    MPI_T_cvar_get_num(&cvars);
    MPI_T_pvar_get_num(&pvars);
    CHECK(all_c == cvars && all_p == pvars);
    CHECK(!MPI_T_category_get_categories(0, 128, list) && list[0] == 1);
    CHECK(!MPI_T_category_get_index("waiting", &i) && i > 0);
    CHECK(MPI_T_category_get_cvars(n, 128, list) == MPI_T_ERR_INVALID_INDEX);
    CHECK(!MPI_T_event_get_num(&events) && events == 0);
    CHECK(MPI_T_event_get_index("any", &i) == MPI_T_ERR_INVALID_NAME);
}

static void *watch(void *arg)
{
    MPI_T_pvar_session s;
    MPI_T_pvar_session_create(&s);
    MPI_T_pvar_handle h =
        pvar(s, "messages_sent_machine", MPI_T_PVAR_CLASS_COUNTER);
    unsigned long long last = 0;
    MPI_T_pvar_start(s, h);
    for (int i = 0; i < 500; i++) {
        unsigned long long now = read_pvar(s, h);
        CHECK(now >= last);
        last = now;
    }
    MPI_T_pvar_session_free(&s);
    return arg;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, watch, NULL));
    for (int i = 0; i < 500; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    int level, n;
    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(!MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level));
    CHECK(level == MPI_THREAD_MULTIPLE);
    check_settings_early();
    smoke_init(MPI_THREAD_MULTIPLE);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    check_settings();
    check_enum();
    check_counters();
    check_queues();
    check_categories();
    check_threads();
    CHECK(!MPI_T_finalize());
    MPI_Finalize();
    check_categories();
    CHECK(!MPI_T_finalize());
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}

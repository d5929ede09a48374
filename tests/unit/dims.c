/* SPDX-License-Identifier: MIT */
/* MPI_Dims_create against a search that looks at every factorisation. */
#include "mpi/api.h"

#include "unit/check.h"

#define MOST 8

/* Smaller difference between largest and smallest first; of equals the one
 * whose smallest, second smallest, ... factor is larger. */
static bool is_better(int k, const int *a, const int *b)
{
    int da = a[0] - a[k - 1], db = b[0] - b[k - 1];
    if (da != db)
        return da < db;
    for (int i = k - 1; i >= 0; i--)
        if (a[i] != b[i])
            return a[i] > b[i];
    return false;
}

static void try_all(int n, int k, int depth, int *now, int *best)
{
    int most = depth ? now[depth - 1] : n;
    if (depth == k - 1) {
        now[depth] = n;
        if (n <= most && (!best[0] || is_better(k, now, best)))
            for (int i = 0; i < k; i++)
                best[i] = now[i];
        return;
    }
    for (int d = 1; d <= most && d <= n; d++) {
        if (n % d)
            continue;
        now[depth] = d;
        try_all(n / d, k, depth + 1, now, best);
    }
}

static void compare(int n, int k)
{
    int now[MOST], best[MOST] = {0}, dims[MOST] = {0};
    try_all(n, k, 0, now, best);
    CHECK_EQ(tb_dims_create(n, k, dims), TB_OK);
    for (int i = 0; i < k; i++)
        CHECK_EQ(dims[i], best[i]);
}

static void given(void)
{
    int dims[5] = {0, 3, 0, 1, 0};
    CHECK_EQ(tb_dims_create(3 * 64, 5, dims), TB_OK);
    CHECK(dims[0] == 4 && dims[1] == 3 && dims[2] == 4 && dims[3] == 1 &&
          dims[4] == 4);
    CHECK_EQ(tb_dims_create(3 * 64, 5, dims), TB_OK); /* nothing to do */
    CHECK_EQ(tb_dims_create(7, 5, dims), TB_ERR_DIMS);
    CHECK_EQ(tb_dims_create(2 * 3 * 64, 5, dims), TB_ERR_DIMS);
    dims[2] = -1;
    CHECK_EQ(tb_dims_create(3 * 64, 5, dims), TB_ERR_DIMS);
    CHECK_EQ(tb_dims_create(0, 5, dims), TB_ERR_DIMS);
    CHECK_EQ(tb_dims_create(1, 0, NULL), TB_OK);
    CHECK_EQ(tb_dims_create(2, 0, NULL), TB_ERR_DIMS);
}

/* Many divisors, a large prime, more dimensions than factors. */
static void large(void)
{
    static const int numbers[] = {2095133040, 2147483647, 1073741824,
                                  1000000000};
    for (size_t i = 0; i < TB_COUNT_OF(numbers); i++) {
        for (int k = 1; k <= 40; k++) {
            int dims[40] = {0};
            long long product = 1;
            CHECK_EQ(tb_dims_create(numbers[i], k, dims), TB_OK);
            for (int d = 0; d < k; d++) {
                product *= dims[d];
                CHECK(d == 0 || dims[d] <= dims[d - 1]);
            }
            CHECK_EQ(product, numbers[i]);
        }
    }
}

int main(void)
{
    for (int n = 1; n <= 400; n++)
        for (int k = 1; k <= 5; k++)
            compare(n, k);
    compare(134064, 5);
    compare(590520, 4);
    compare(5616, 4);
    given();
    large();
    return 0;
}

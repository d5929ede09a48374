/* SPDX-License-Identifier: MIT */
/*
 * A layout says where the bytes of a datatype lie: the compiled form of an MPI
 * datatype, without names, signatures or envelopes. Pure: it touches nothing
 * but the memory it is pointed at.
 *
 * Words. One *element* is one copy of the type; its *size* is the number of
 * data bytes, its *extent* the distance to the next element. The *stream* of
 * `count` elements is their data bytes in type-map order: count x size bytes.
 * A *run* is a piece of the stream that is contiguous in memory. A *turn* is
 * the part of the stream that repeats at a fixed distance, the *pitch*, from
 * the first element to the last: an element, or a piece of it if the elements
 * continue its own pattern.
 *
 * Packing is stateless: any piece of the stream can be packed or unpacked by
 * its offset, so fragments may come in any order and nobody keeps a cursor.
 * Finding the offset costs a division per vector level and a binary search
 * per indexed level (the scheme of Traeff, Hempel, Ritzdorf and Zimmermann,
 * "Flattening on the fly", EuroPVM/MPI 1999).
 */
#ifndef TB_LAYOUT_H
#define TB_LAYOUT_H

#include "base/base.h"

struct tb_loop; /* the compiled loop nest; loop.h */

struct tb_layout {
    _Atomic int32_t refs; /* negative: static, never freed */
    bool dense;           /* the stream of any count is one run */
    bool marked;          /* lb and extent were set by resizing, here or in
                             a type that this one was made of */
    int64_t align;        /* strictest alignment of the basic types */
    int64_t size;
    int64_t extent;
    int64_t lb;      /* lower bound; the upper one is lb + extent */
    int64_t true_lb; /* first and one past the last data byte */
    int64_t true_ub;
    int64_t first;        /* where the first turn is */
    int64_t runs;         /* pieces of one element */
    struct tb_loop *loop; /* of one element; NULL: it is one run */

    struct tb_loop *turn; /* not a reference; NULL: a turn is one run */
    int64_t turn_size;
    int64_t pitch;
};

/* Layout of a basic type: one run of `bytes` bytes; initialiser. */
#define TB_LAYOUT_RUN(bytes_, extent_, align_)                                 \
    {                                                                          \
        .refs = -1, .dense = (bytes_) == (extent_), .align = (align_),         \
        .size = (bytes_), .extent = (extent_), .true_ub = (bytes_), .runs = 1, \
        .turn_size = (bytes_), .pitch = (extent_)                              \
    }
#define TB_LAYOUT_BYTES(n) TB_LAYOUT_RUN(n, n, 1)

extern struct tb_layout tb_layout_byte;

/*
 * Constructors. Each makes a layout of its own with one reference; arguments
 * stay the caller's. Displacements and strides are in bytes. Adjacent blocks
 * are merged, nests that are contiguous collapse. Fail only for want of
 * memory (TB_ERR_NO_MEM) or when a size or displacement overflows 63 bits
 * (TB_ERR_TYPE). Counts and block lengths are not negative.
 *
 * Bounds are the standard's (MPI 5.0, 5.1.6 and 5.1.7): from the markers that
 * resizing leaves, or without any from the data. A structure's extent is then
 * rounded up to the alignment; the others end where their last element does,
 * which is the same if they keep the alignment. (Where a stride does not, MPICH
 * and Open MPI do not round up either.)
 */
tb_err tb_layout_contiguous(struct tb_layout **out, int64_t count,
                            const struct tb_layout *of);
tb_err tb_layout_vector(struct tb_layout **out, int64_t count, int64_t block,
                        int64_t stride, const struct tb_layout *of);
/* blocks[i] elements of `of` at displs[i] x unit. */
tb_err tb_layout_indexed(struct tb_layout **out, int64_t n,
                         const int64_t *blocks, const int64_t *displs,
                         int64_t unit, const struct tb_layout *of);
/* The same with `block` elements each. */
tb_err tb_layout_indexed_block(struct tb_layout **out, int64_t n, int64_t block,
                               const int64_t *displs, int64_t unit,
                               const struct tb_layout *of);
/* blocks[i] elements of of[i] at displs[i]. */
tb_err tb_layout_struct(struct tb_layout **out, int64_t n,
                        const int64_t *blocks, const int64_t *displs,
                        const struct tb_layout *const *of);
tb_err tb_layout_resized(struct tb_layout **out, int64_t lb, int64_t extent,
                         const struct tb_layout *of);

/* References are atomic, so that a request may outlive its datatype. */
static inline struct tb_layout *tb_layout_ref(struct tb_layout *l)
{
    if (atomic_load_explicit(&l->refs, memory_order_relaxed) > 0)
        atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}
void tb_layout_unref(struct tb_layout *l);

/*
 * Copies `bytes` of the stream from offset `from` on: pack out of the elements
 * at `base`, unpack into them. The caller keeps from + bytes within the
 * stream. `base` is the address that displacements count from (MPI's buffer
 * argument). The two memories must not overlap.
 */
void tb_layout_pack(const struct tb_layout *l, const void *base, int64_t from,
                    void *out, int64_t bytes);
void tb_layout_unpack(const struct tb_layout *l, void *base, int64_t from,
                      const void *in, int64_t bytes);

/* The run at stream offset `from`: its address, and its length, at most as far
 * as stream offset `limit`. For copies that go straight to user memory. */
int64_t tb_layout_run(const struct tb_layout *l, const void *base, int64_t from,
                      int64_t limit, void **address);

/* How long the runs are on average; decides whether single copies pay. */
int64_t tb_layout_mean_run(const struct tb_layout *l);

/* Whether the stream of so many elements is one run: then it begins at
 * tb_layout_at. */
static inline bool tb_layout_is_run(const struct tb_layout *l, int64_t count)
{
    return l->dense || (!l->loop && count <= 1);
}

/* Address of the stream's first byte. */
static inline void *tb_layout_at(const struct tb_layout *l, const void *base)
{
    return (void *)((uintptr_t)base + (uintptr_t)l->first);
}

#endif

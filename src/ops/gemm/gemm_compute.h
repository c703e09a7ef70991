// SPDX-License-Identifier: MIT
// ops/gemm/gemm_compute.h — the compute role of every GEMM operator, as steps of a tile.
//
// A tile is loaded, multiplied and stored.  On a GPU three jobs of a block do that at the same time, each for another
// tile; a CPU thread does it in turn.  An operator's namespace says what each part waits for and tells:
//
//   for_each_tile(layout, rank, post, body)   the tiles of a compute worker, in order; every job walks them
//   before_load(m, layout, tile)              waits until the tile's rows of A are here
//   before_store(m, layout, tile)             waits until its result may be written
//   after_store(m, layout, tile)              tells that it was written
//
// The operator's layout has
//
//   rows_place, rows_bytes   where the tile's rows of A lie
//   num_images               how many images get the result; 0 means that it goes to C
//   receiver                 which rank has the i-th image
//   image_at                 where the tile lies in the first image; it lies at the same place in all of them
//
// A body is what a target does inside a tile: load, multiply, hand_over (the product leaves the accumulators), and
// then store(tile, to) into an image, or write(tile) into C.
#pragma once

#include "base/macros.h"
#include "core/machine.h"
#include "core/tile.h"

namespace mk::gemm {

// Workers of a cluster compute a tile together: they go through the same tiles.
template <class Layout>
MK_HD constexpr Post in_cluster(const Layout& layout, Post post) {
  if (post.role != Layout::kCompute) return post;
  return {post.role, post.index / layout.cluster, post.count / layout.cluster};
}

template <class Layout>
MK_HD constexpr Place image_place(const Layout& layout, int rank, const Tile& tile, int step) {
  Place at = layout.image_at(rank, tile);
  at.rank = layout.receiver(rank, tile, step);
  return at;
}

// The load job's part.
MK_PROTOCOL
template <Machine M, class Layout>
MK_HD bool load_step(M& m, const Layout& layout, const Tile& tile) {
  if (!before_load(m, layout, tile)) return false;
  m.load(layout.rows_place(m.rank(), tile), layout.rows_bytes(tile));
  return true;
}

// The store job's part.
MK_PROTOCOL
template <Machine M, class Layout, class Body>
MK_HD bool store_step(M& m, const Layout& layout, const Tile& tile, Body& body) {
  if (!before_store(m, layout, tile)) return false;
  const int images = layout.num_images();
  for (int i = 0; i < images; ++i) body.store(tile, image_place(layout, m.rank(), tile, i));
  if (images == 0) body.write(tile);
  after_store(m, layout, tile);
  return true;
}

// All of it, where one worker does it.
MK_PROTOCOL
template <Machine M, class Layout, class Body>
MK_HD void compute(M& m, const Layout& layout, const Post& post, Body& body) {
  for_each_tile(layout, m.rank(), post, [&](const Tile& tile) {
    if (!load_step(m, layout, tile)) return false;
    m.note(Event{EventKind::kTileBegin, tile.number, tile.source});
    body.load(tile);
    body.multiply(tile);
    body.hand_over();
    if (!store_step(m, layout, tile, body)) return false;
    m.note(Event{EventKind::kTileEnd, tile.number, tile.source});
    return true;
  });
}

// A worker's launch.  communicate(m, layout, post, body) is the operator's: all roles but compute.
MK_PROTOCOL
template <Machine M, class Layout, class Body>
MK_HD void work(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) {
    compute(m, layout, post, body);
  } else {
    communicate(m, layout, post, body);
  }
}

}  // namespace mk::gemm

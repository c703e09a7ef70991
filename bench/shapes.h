// SPDX-License-Identifier: MIT
// bench/shapes.h — the problems an operator is timed on where the caller names none.
#pragma once

#include <vector>

#include "bench/pace_spec.h"

namespace mk::bench {

// What the whole GPU is counted with where nothing was measured.
constexpr double kNominalTflops = 700;

// All ranks' products alone, on the whole GPU, by formula.
double nominal_compute_us(const BenchCase& c);

// Compute over communication, both by formula; infinite where nothing is sent.
double balance_of(const BenchCase& c, const PaceSpec& pace);

// Of an operator with M, N and K.  From small to large; some bound by the links, some by the tensor cores, some by both
// alike.
std::vector<BenchCase> default_shapes(OpKind op, const WorldShape& world, DType dtype);

}  // namespace mk::bench

// SPDX-License-Identifier: MIT
// tests/support/gemm_forms.h — what calls of AllGather+GEMM may ask for.
#pragma once

#include <array>

#include "tests/support/op_table.h"

namespace mk::test {

// Both orders; with bias and without; every activation, with bias and without.
inline constexpr std::array<GemmForm, 7> kGemmForms = {{{BOrder::kNK},
                                                        {BOrder::kKN, Activation::kNone, true},
                                                        {BOrder::kNK, Activation::kNone, true},
                                                        {BOrder::kKN, Activation::kGelu},
                                                        {BOrder::kNK, Activation::kGelu, true},
                                                        {BOrder::kKN, Activation::kSilu, true},
                                                        {BOrder::kNK, Activation::kSilu}}};

}  // namespace mk::test

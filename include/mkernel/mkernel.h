// SPDX-License-Identifier: MIT
// mkernel/mkernel.h — everything a user needs.
#pragma once

#include "mkernel/ag_gemm.h"
#include "mkernel/error.h"
#include "mkernel/export.h"
#include "mkernel/gemm_ar.h"
#include "mkernel/gemm_args.h"
#include "mkernel/gemm_rs.h"
#include "mkernel/moe.h"
#include "mkernel/moe_layer.h"
#include "mkernel/moe_layer_backward.h"
#include "mkernel/options.h"
#include "mkernel/ring_attention.h"
#include "mkernel/ring_attention_backward.h"
#include "mkernel/types.h"
#include "mkernel/version.h"
#include "mkernel/world.h"

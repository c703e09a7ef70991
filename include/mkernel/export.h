// SPDX-License-Identifier: MIT
// mkernel/export.h — marks what a program may call: the shared library exports nothing else.
#pragma once

#define MK_API __attribute__((visibility("default")))

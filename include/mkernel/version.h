// SPDX-License-Identifier: MIT
// mkernel/version.h — the version of this header, and that of the library that a program runs with.
//
// The number is that of project() in CMakeLists.txt.
#pragma once

#include "mkernel/export.h"

#define MKERNEL_VERSION_MAJOR 0
#define MKERNEL_VERSION_MINOR 1
#define MKERNEL_VERSION_PATCH 0

namespace mk {

// "major.minor.patch" of the library.  Before 1.0 a new minor version may break programs.
MK_API const char* version();

}  // namespace mk

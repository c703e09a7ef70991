// SPDX-License-Identifier: MIT
// tests/support/prelude.cc — a source for the headers that all tests parse once to be compiled with.

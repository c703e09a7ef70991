// SPDX-License-Identifier: MIT
// tests/support/expect_error.h — that a call throws an mk::Error a user can act on.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "mkernel/error.h"

namespace mk::test {

// Every word must be in the message, and the message must be one line.
inline testing::AssertionResult says(const Error& error, std::initializer_list<std::string_view> words) {
  const std::string message = error.what();
  if (message.find('\n') != std::string::npos) {
    return testing::AssertionFailure() << "the message has several lines: " << message;
  }
  for (const std::string_view word : words) {
    if (message.find(word) == std::string::npos) {
      return testing::AssertionFailure() << "'" << word << "' is not in: " << message;
    }
  }
  return testing::AssertionSuccess() << message;
}

template <class Call>
testing::AssertionResult throws(ErrorCode code, std::initializer_list<std::string_view> words, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != code) {
      return testing::AssertionFailure() << "the code is " << static_cast<int>(error.code()) << ": " << error.what();
    }
    return says(error, words);
  } catch (const std::exception& other) {
    return testing::AssertionFailure() << "not an mk::Error: " << other.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

template <class Call>
testing::AssertionResult refuses(std::initializer_list<std::string_view> words, Call&& call) {
  return throws(ErrorCode::kInvalidArgument, words, std::forward<Call>(call));
}

}  // namespace mk::test

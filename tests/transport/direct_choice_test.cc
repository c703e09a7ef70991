// SPDX-License-Identifier: MIT
// tests/transport/direct_choice_test.cc — all ranks reach GPUs alike, and who cannot is named.
#include "transport/direct_choice.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

std::string can(const std::string& asked, const std::string& way = "GPU memory by DMA-BUF") {
  return direct_offer(asked, {way, ""});
}
std::string cannot(const std::string& asked, const std::string& trouble) { return direct_offer(asked, {"", trouble}); }

TEST(DirectChoice, IsDirectIfAllRanksCan) {
  for (const char* asked : {"auto", "on"}) {
    const DirectChoice choice = choose_direct({can(asked), can(asked), can(asked)});
    EXPECT_TRUE(choice.is_direct);
    EXPECT_EQ(choice.reach, "GPU memory by DMA-BUF");
  }
}

TEST(DirectChoice, SaysEveryWayThatIsTaken) {
  const DirectChoice choice = choose_direct({can("auto", "GPU memory by peermem"), can("auto"), can("auto")});
  EXPECT_TRUE(choice.is_direct);
  EXPECT_EQ(choice.reach, "GPU memory by DMA-BUF, GPU memory by peermem");
}

TEST(DirectChoice, IsStagedIfOneRankCannotAndNamesTheFirst) {
  const DirectChoice choice = choose_direct({can("auto"), cannot("auto", "no\nmodule"), cannot("auto", "no NIC")});
  EXPECT_FALSE(choice.is_direct);
  EXPECT_EQ(choice.reach, "by way of host memory: rank 1: no module");
}

TEST(DirectChoice, ThatIsForcedNamesWhoCannot) {
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"gpu_direct is on and cannot be, rank 1: no module"}, [] {
    choose_direct({can("on"), cannot("on", "no module")});
  }));
}

TEST(DirectChoice, OffIsOffWhateverRanksCan) {
  const DirectChoice choice = choose_direct({can("off"), can("off")});
  EXPECT_FALSE(choice.is_direct);
  EXPECT_EQ(choice.reach, "by way of host memory: gpu_direct is off");
}

TEST(DirectChoice, RanksThatWereAskedForDifferentThingsAreNamed) {
  EXPECT_TRUE(refuses({"gpu_direct is 'on' on rank 1 and 'auto' on rank 0"}, [] {
    choose_direct({can("auto"), can("on")});
  }));
}

TEST(DirectChoice, KnowsThreeWordsOnly) {
  for (const char* word : {"auto", "on", "off"}) EXPECT_NO_THROW(check_gpu_direct(word));
  for (const char* word : {"", "1", "ON", "maybe"}) {
    EXPECT_TRUE(refuses({"gpu_direct is '" + std::string(word) + "'", "auto, on or off"}, [&] {
      check_gpu_direct(word);
    })) << word;
  }
}

}  // namespace
}  // namespace mk::test

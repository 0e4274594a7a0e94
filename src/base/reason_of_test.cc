#include "base/reason_of.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>

namespace isotherm::reason_of_test {
namespace {

TEST(ReasonOf, AFileIsNamedWithWhatIsWrongWithIt) {
  EXPECT_EQ(reason_of(std::runtime_error("too few")), "too few");
  try {
    static_cast<void>(std::filesystem::file_size("no/such/file"));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(reason_of(error), "no/such/file: No such file or directory");
  }
}

TEST(ReasonOf, AnErrorOfTheSystemIsToldInItsWords) {
  EXPECT_EQ(reason_of(ENOSPC), "No space left on device");
}

}  // namespace
}  // namespace isotherm::reason_of_test
